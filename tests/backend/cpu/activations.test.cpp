#include <foredraft/backend/cpu/activations.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

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

TEST_CASE("bytes of some rows") {
  const auto bytes = cpu::Activations::bytes;
  CHECK(bytes(ActivationFormat::kF32, 1, 1) == 64);
  CHECK(bytes(ActivationFormat::kF32, 3, 33) == 3 * 192);
  CHECK(bytes(ActivationFormat::kInt8Per32, 1, 96) == 2 * 128);       // 64 + 24, whole lines
  CHECK(bytes(ActivationFormat::kInt8Per32, 16, 96) == 2 * 16 * 88);  // nothing is lost
  CHECK(bytes(ActivationFormat::kInt8Per256, 16, 256) == 16 * 340);
  CHECK(bytes(ActivationFormat::kInt8Per256, 17, 512) == 2 * (16 * 340 + 384));
}

TEST_CASE("the blocks of all rows lie apart, and within the memory") {
  for (const ActivationFormat format :
       {ActivationFormat::kF32, ActivationFormat::kInt8Per32, ActivationFormat::kInt8Per256}) {
    for (int n_rows = 1; n_rows <= 36; ++n_rows) {
      const int n_in = 3 * cpu::activation_block_k(format);
      std::vector<int> used(cpu::Activations::bytes(format, n_rows, n_in));
      std::vector<std::byte> memory(used.size());
      const cpu::Activations a{format, n_rows, n_in, memory.data()};
      REQUIRE(a.n_blocks() == 3);
      const auto use = [&](const std::byte* from, std::size_t size) {
        const auto first = fd::idx(from - memory.data());
        for (std::size_t i = first; i < first + size; ++i) ++used.at(i);
      };
      for (int row = 0; row < n_rows; ++row) {
        for (int b = 0; b < 3; ++b) {
          use(a.codes(row, b), cpu::activation_code_bytes(format));
          use(a.scales(row, b), cpu::activation_scales_bytes(format));
          REQUIRE((a.codes(row, b) - memory.data()) % 64 == 0);
        }
      }
      REQUIRE(*std::max_element(used.begin(), used.end()) == 1);
    }
  }
}

TEST_CASE("rows of a group lie side by side, and the groups of a view are views") {
  std::vector<std::byte> memory(cpu::Activations::bytes(ActivationFormat::kInt8Per256, 19, 512));
  const cpu::Activations a{ActivationFormat::kInt8Per256, 19, 512, memory.data()};
  CHECK(a.codes(3, 0) == a.codes(0, 0) + 3 * 256);
  CHECK(a.scales(0, 0) == a.codes(15, 0) + 256);
  CHECK(a.scales(3, 0) == a.scales(0, 0) + 3 * sizeof(cpu::ScalesPer256));
  for (const int row : {0, 9, 15, 16, 18}) {
    cpu::Activations::Block block = a.block(row, 0);
    CHECK(block.codes == a.codes(row, 0));
    CHECK(block.scales == a.scales(row, 0));
    block.advance();
    CHECK(block.codes == a.codes(row, 1));
    CHECK(block.scales == a.scales(row, 1));
  }
  const cpu::Activations last{a.format, 3, a.n_in, a.codes(16, 0)};
  for (const int block : {0, 1}) {
    CHECK(last.codes(2, block) == a.codes(18, block));
    CHECK(last.scales(2, block) == a.scales(18, block));
  }
}
