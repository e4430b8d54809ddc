#include <foredraft/backend/key_blocks.hpp>

#include <numeric>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("every element of every key has a place of its own") {
  constexpr int kRows = 100;
  for (const int d_head : {1, 6, 64}) {
    for (const int size : {0, 1, 31, 32, 33, 63, 64, 70, 96, 100}) {
      CAPTURE(d_head, size);
      std::vector<int> taken(static_cast<std::size_t>(kRows * d_head));
      for (int row = 0; row < kRows; ++row) {
        for (int d = 0; d < d_head; ++d) ++taken.at(fd::key_place(row, d, d_head, size));
      }
      CHECK(taken == std::vector<int>(taken.size(), 1));
    }
  }
}

TEST_CASE("whole blocks of committed keys lie by dimensions, the others by rows") {
  CHECK(fd::positions_in_key_blocks(63) == 32);
  CHECK(fd::positions_in_key_blocks(64) == 64);
  CHECK(fd::key_place(33, 5, 8, 64) == 32 * 8 + 5 * 32 + 1);
  CHECK(fd::key_place(33, 5, 8, 63) == 33 * 8 + 5);  // its block is not whole
  CHECK(fd::key_place(64, 5, 8, 64) == 64 * 8 + 5);  // staged
}

TEST_CASE("transpose, and back") {
  std::vector<int> rows(32 * 6);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<int> turned(rows.size());
  fd::transpose(rows.data(), 32, 6, turned.data());
  for (int row = 0; row < 32; ++row) {
    for (int d = 0; d < 6; ++d)
      CHECK(turned[fd::key_place(row, d, 6, 32)] == rows[static_cast<std::size_t>(row * 6 + d)]);
  }
  std::vector<int> back(rows.size());
  fd::transpose(turned.data(), 6, 32, back.data());
  CHECK(back == rows);
}

TEST_CASE("blocks that have become whole are completed, and nothing else") {
  constexpr int kRows = 110;
  constexpr int kHead = 6;
  std::vector<int> rows(kRows * kHead);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<int> keys = rows;
  std::vector<int> scratch(fd::kKeyBlock * kHead);
  int in_blocks = 0;
  for (const int size : {0, 20, 31, 32, 40, 100, 110}) {
    fd::complete_key_blocks(keys.data(), kHead, in_blocks, size, scratch.data());
    in_blocks = fd::positions_in_key_blocks(size);
    for (int row = 0; row < kRows; ++row) {
      for (int d = 0; d < kHead; ++d) {
        CHECK(keys[fd::key_place(row, d, kHead, size)] ==
              rows[static_cast<std::size_t>(row * kHead + d)]);
      }
    }
  }
}
