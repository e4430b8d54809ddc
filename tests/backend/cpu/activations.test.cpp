#include <foredraft/backend/cpu/activations.hpp>

#include <cstddef>
#include <set>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using cpu::ActivationFormat;

TEST_CASE("each storage format has its activations, with blocks as long as those of the panels") {
  CHECK(cpu::activation_format(fd::TensorType::kQ4_K) == ActivationFormat::kInt8Per256);
  CHECK(cpu::activation_format(fd::TensorType::kQ6_K) == ActivationFormat::kInt8Per256);
  CHECK(cpu::activation_format(fd::TensorType::kQ8_0) == ActivationFormat::kInt8Per32);
  CHECK(cpu::activation_format(fd::TensorType::kQ5_1) == ActivationFormat::kInt8Per32);
  CHECK(cpu::activation_format(fd::TensorType::kBF16) == ActivationFormat::kF32);
  for (const fd::TensorType type :
       {fd::TensorType::kF16, fd::TensorType::kQ4_0, fd::TensorType::kQ4_K}) {
    CHECK(cpu::activation_block_k(cpu::activation_format(type)) == cpu::panel_layout(type).block_k);
  }
}

TEST_CASE("bytes of a row") {
  CHECK(cpu::activation_bytes(ActivationFormat::kF32, 1) == 64);
  CHECK(cpu::activation_bytes(ActivationFormat::kF32, 33) == 192);
  CHECK(cpu::activation_bytes(ActivationFormat::kInt8Per32, 96) == 2 * sizeof(cpu::BlockInt8Per32));
  CHECK(cpu::activation_bytes(ActivationFormat::kInt8Per256, 1536) ==
        6 * sizeof(cpu::BlockInt8Per256));
}

TEST_CASE("the blocks of all rows tile the memory without overlap") {
  for (const ActivationFormat format :
       {ActivationFormat::kF32, ActivationFormat::kInt8Per32, ActivationFormat::kInt8Per256}) {
    for (int n_rows = 1; n_rows <= 20; ++n_rows) {
      alignas(64) static std::byte memory[64];  // only an origin: nothing is read
      const cpu::Activations a{format, n_rows, 3 * cpu::activation_block_k(format), memory};
      REQUIRE(a.n_blocks() == 3);
      std::set<std::size_t> offsets;
      for (int row = 0; row < n_rows; ++row) {
        for (int b = 0; b < 3; ++b) offsets.insert(a.offset(row, b));
      }
      const std::size_t size = cpu::activation_block_bytes(format);
      REQUIRE(offsets.size() == static_cast<std::size_t>(3 * n_rows));
      REQUIRE(*offsets.rbegin() == (offsets.size() - 1) * size);
      REQUIRE(*offsets.rbegin() + size ==
              static_cast<std::size_t>(n_rows) *
                  cpu::activation_bytes(format, static_cast<std::size_t>(a.n_in)));
    }
  }
}

TEST_CASE("the rows of a tile lie side by side") {
  const cpu::Activations a{ActivationFormat::kInt8Per256, 11, 512, nullptr};
  const std::size_t size = sizeof(cpu::BlockInt8Per256);
  CHECK(a.offset(3, 0) == 3 * size);
  CHECK(a.offset(0, 1) == 8 * size);   // eight rows to the first group
  CHECK(a.offset(8, 0) == 16 * size);  // two blocks of eight rows before the second
  CHECK(a.offset(8, 1) == 19 * size);  // which has three
}
