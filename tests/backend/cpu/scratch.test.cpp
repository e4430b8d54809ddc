#include <foredraft/backend/cpu/scratch.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"
#include "support/sanitizers.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;

TEST_CASE("a buffer is aligned, grows and never shrinks") {
  cpu::AlignedBuffer<float> buffer;
  CHECK(buffer.data() == nullptr);
  buffer.reserve(3);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
  buffer.reserve(1000);
  float* const data = buffer.data();
  data[999] = 1.0f;
  buffer.reserve(5);
  CHECK(buffer.data() == data);
}

#if !defined(FOREDRAFT_UNDER_ASAN)  // which ends the program instead of refusing
TEST_CASE("memory that cannot be had is an error") {
  cpu::AlignedBuffer<std::byte> buffer;
  try {
    buffer.reserve(std::size_t{1} << 60);
    FAIL("no error");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kOutOfMemory);
  }
}
#endif

TEST_CASE("the areas of the formats lie side by side, aligned") {
  std::vector<std::byte> memory(cpu::Inputs::bytes(5, 300));
  const cpu::Inputs in{memory.data(), 5, 300};
  const std::byte* end = memory.data();
  for (const auto type : {fd::TensorType::kBF16, fd::TensorType::kQ5_1, fd::TensorType::kQ6_K}) {
    const cpu::ActivationFormat format = cpu::activation_format(type);
    const cpu::Activations a = in.of(type);
    CHECK(a.data == end);
    CHECK(a.format == format);
    CHECK(a.n_rows == 5);
    CHECK(a.n_in == 300);
    end += cpu::Activations::bytes(format, 5, 300);
  }
  CHECK(end == memory.data() + memory.size());
}

TEST_CASE("a worker's own inputs fit what is reserved for them") {
  for (const int widest : {1, 64, 9000}) {
    for (const int n_in : {1, 32, 255, 256, 896, 9000}) {
      if (n_in > widest) continue;
      for (int rows = 1; cpu::Scratch::own_inputs(rows, n_in) && rows < 100; ++rows) {
        CHECK(cpu::Inputs::bytes(rows, n_in) <= cpu::Scratch::own_bytes(widest));
      }
    }
  }
}

TEST_CASE("scratch for a pass") {
  cpu::Scratch scratch;
  scratch.reserve({.n_rows = 4, .d_model = 64, .d_ff = 100, .d_q = 64, .d_kv = 32, .d_head = 16},
                  3);
  CHECK(scratch.workers.size() == 3);
  const float* tile = scratch.workers[2].tile.data();
  scratch.reserve({.n_rows = 2, .d_model = 64, .d_ff = 90, .d_q = 64, .d_kv = 32, .d_head = 16}, 3);
  CHECK(scratch.workers[2].tile.data() == tile);
  const cpu::Intermediate hidden = scratch.intermediate(fd::TensorType::kQ4_K, 2, 90);
  CHECK((hidden.in.format == cpu::ActivationFormat::kInt8Per256 && hidden.in.n_rows == 2));
  CHECK((hidden.row(1) == hidden.values + 90 && hidden.written[0].count == 0));
}
