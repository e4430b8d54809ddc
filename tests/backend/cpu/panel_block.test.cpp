#include <foredraft/backend/cpu/panel_block.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using fd::TensorType;

TEST_CASE("codes lie where the layout says") {
  // Q5_K, row 3, k = 37: unit 9 is the upper half of vector 4, at byte 4 * 3 + 37 % 4; its fifth
  // bit is bit 9 % 8 of the second vector of the high plane.
  const cpu::PanelLayout layout = cpu::panel_layout(TensorType::kQ5_K);
  std::vector<std::byte> block(layout.bytes);
  std::uint8_t codes[256]{};
  codes[37] = 0x1d;
  cpu::pack_codes(layout, codes, 3, block.data());
  CHECK(block[layout.low + 4 * 64 + 13] == std::byte{0xd0});
  CHECK(block[layout.high + 64 + 13] == std::byte{0x02});
  std::size_t n_set = 0;
  for (const std::byte byte : block) n_set += byte != std::byte{0};
  CHECK(n_set == 2);
  CHECK(cpu::unpack_code(layout, block.data(), 3, 37) == 0x1d);
  CHECK(cpu::unpack_code(layout, block.data(), 3, 36) == 0);
}

TEST_CASE("a panel holds what the file's blocks hold") {
  for (const TensorType type : kernels_under_test::kTypes) {
    const cpu::PanelLayout layout = cpu::panel_layout(type);
    const auto elements = fd::idx(fd::quant_geometry(type).elements);
    if (elements == 0) continue;
    CAPTURE(fd::layout_of(type)->name);
    const auto n_in = fd::idx(layout.block_k);
    const auto file = kernels_under_test::random_matrix(type, cpu::kPanelRows, n_in, 6);
    std::vector<std::byte> panel(layout.bytes);
    cpu::pack_panel(type, file.bytes.data(), file.row_size(), cpu::kPanelRows, layout.block_k,
                    panel.data());
    int n_wrong = 0;
    for (int row = 0; row < cpu::kPanelRows; ++row) {
      const std::byte* source = file.bytes.data() + fd::idx(row) * file.row_size();
      for (std::size_t begin = 0; begin < n_in; begin += elements) {
        fd::QuantBlock expected;
        fd::QuantBlock found;
        fd::decode_block(type, source, expected);
        source += fd::layout_of(type)->bytes;
        cpu::unpack_scales(type, layout, panel.data(), static_cast<int>(begin / elements), row,
                           found);
        for (std::size_t k = 0; k < elements; ++k)
          found.code[k] = cpu::unpack_code(layout, panel.data(), row, static_cast<int>(begin + k));
        n_wrong += found.d != expected.d || found.m != expected.m ||
                   !std::ranges::equal(found.scale, expected.scale) ||
                   !std::ranges::equal(found.min, expected.min) ||
                   !std::ranges::equal(found.code, expected.code);
      }
    }
    CHECK(n_wrong == 0);
  }
}

TEST_CASE("the second half of a block may be missing") {
  // 32 columns of a format whose panels have blocks of 64: the rest becomes zero, d included.
  const auto file = kernels_under_test::random_matrix(TensorType::kQ4_1, 6, 32, 8);
  const cpu::PanelLayout layout = cpu::panel_layout(TensorType::kQ4_1);
  std::vector<std::byte> block(layout.bytes, std::byte{0xff});
  cpu::pack_panel(TensorType::kQ4_1, file.bytes.data(), file.row_size(), 6, 32, block.data());
  fd::QuantBlock second;
  cpu::unpack_scales(TensorType::kQ4_1, layout, block.data(), 1, 5, second);
  CHECK(second.d == 0);
  CHECK(second.m == 0);
  for (int k = 32; k < 64; ++k) CHECK(cpu::unpack_code(layout, block.data(), 5, k) == 0);
}

TEST_CASE("every byte of a panel is written, whatever was there") {
  // Padding within a block would be left as it was found, and rows or columns that are missing too.
  for (const TensorType type : kernels_under_test::kTypes) {
    for (const std::size_t n_in : kernels_under_test::columns_of(type)) {
      for (const int n_rows : {1, 15, 16}) {
        CAPTURE(fd::layout_of(type)->name, n_in, n_rows);
        const auto file = kernels_under_test::random_matrix(type, 16, n_in, 21);
        const cpu::PanelLayout layout = cpu::panel_layout(type);
        const auto block_k = fd::idx(layout.block_k);
        const std::size_t bytes = (n_in + block_k - 1) / block_k * layout.bytes;
        std::vector<std::byte> on_zeros(bytes);
        std::vector<std::byte> on_ones(bytes, std::byte{0xff});
        for (auto* panel : {&on_zeros, &on_ones}) {
          cpu::pack_panel(type, file.bytes.data(), file.row_size(), n_rows, static_cast<int>(n_in),
                          panel->data());
        }
        CHECK(on_zeros == on_ones);
      }
    }
  }
}
