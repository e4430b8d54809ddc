#include <foredraft/backend/cpu/key_blocks.hpp>

#include <cstring>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/panel_block.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("every element of every key has a place of its own") {
  constexpr int kRows = 100;
  for (const int d_head : {1, 6, 64}) {
    for (const int size : {0, 1, 31, 32, 33, 63, 64, 70, 96, 100}) {
      CAPTURE(d_head, size);
      std::vector<int> taken(static_cast<std::size_t>(kRows * d_head));
      for (int row = 0; row < kRows; ++row) {
        for (int d = 0; d < d_head; ++d) ++taken.at(fd::cpu::key_place(row, d, d_head, size));
      }
      CHECK(taken == std::vector<int>(taken.size(), 1));
    }
  }
}

TEST_CASE("whole blocks of committed keys lie by dimensions, the others by rows") {
  CHECK(fd::cpu::positions_in_key_blocks(63) == 32);
  CHECK(fd::cpu::positions_in_key_blocks(64) == 64);
  CHECK(fd::cpu::key_place(33, 5, 8, 64) == 32 * 8 + 5 * 32 + 1);
  CHECK(fd::cpu::key_place(33, 5, 8, 63) == 33 * 8 + 5);  // its block is not whole
  CHECK(fd::cpu::key_place(64, 5, 8, 64) == 64 * 8 + 5);  // staged
}

TEST_CASE("a block of keys in q8_0 is two panels of a matrix in Q8_0, and can be turned back") {
  std::mt19937 random(3);
  for (const int d_head : {64, 128, 192}) {
    CAPTURE(d_head);
    const int n = fd::row_elements<fd::q8_0>(d_head);
    std::vector<fd::q8_0> rows(static_cast<std::size_t>(fd::cpu::kKeyBlock * n));
    for (fd::q8_0& element : rows) {
      element.scale.bits = static_cast<std::uint16_t>(random() % 0x7000);
      for (auto& code : element.codes) code = static_cast<std::int8_t>(random() % 255 - 127);
    }
    std::vector<fd::q8_0> block(rows.size());
    fd::cpu::rows_to_key_block(rows.data(), d_head, block.data());

    const std::size_t row_size = static_cast<std::size_t>(n) * sizeof(fd::q8_0);
    std::vector<std::byte> panels(block.size() * sizeof(fd::q8_0));
    for (std::size_t panel = 0; panel < 2; ++panel) {
      fd::cpu::pack_panel(fd::TensorType::kQ8_0,
                          reinterpret_cast<const std::byte*>(rows.data()) + panel * 16 * row_size,
                          row_size, 16, d_head, panels.data() + panel * panels.size() / 2);
    }
    CHECK(std::memcmp(block.data(), panels.data(), panels.size()) == 0);

    std::vector<fd::q8_0> back(rows.size());
    fd::cpu::key_block_to_rows(block.data(), d_head, back.data());
    CHECK(std::memcmp(back.data(), rows.data(), panels.size()) == 0);
  }
}
