#include <foredraft/backend/cpu/key_value_block.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include <foredraft/core/index.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

constexpr int kPositions = fd::cpu::kKeyBlock;

// In the instruction set that this file is compiled for; attention.test.cpp covers the others.
TEMPLATE_TEST_CASE("keys are transposed, values converted, absent positions 0", "", float,
                   fd::f16) {
  using Keys = fd::cpu::KeyBlock<fd::cpu::NativeArch, TestType>;
  using Values = fd::cpu::ValueBlock<fd::cpu::NativeArch, TestType>;
  for (const int d_head : {1, 6, 16, 40}) {
    for (const int n : {1, 3, 16, 17, 31, 32}) {
      CAPTURE(d_head, n);
      const int d = (d_head + 15) / 16 * 16;
      std::vector<TestType> k;
      std::vector<TestType> v;
      for (int i = 0; i < 40 * d_head; ++i) {
        k.push_back(TestType(static_cast<float>(i) * 0.25f));
        v.push_back(TestType(static_cast<float>(-i)));
      }
      std::vector<std::int32_t> rows;
      for (int p = 0; p < n; ++p) rows.push_back((p * 7 + 3) % 40);
      std::vector<float> keys(static_cast<std::size_t>(kPositions * d), -1.0f);
      std::vector<float> values(keys.size(), -1.0f);
      Keys::load(k.data(), d_head, rows.data(), n, keys.data());
      Values::load(v.data(), d_head, d, rows.data(), n, values.data());
      for (int p = 0; p < kPositions; ++p) {
        for (int i = 0; i < d_head; ++i) {
          const auto from =
              static_cast<std::size_t>(p < n ? rows[static_cast<std::size_t>(p)] * d_head + i : 0);
          const float key = keys[static_cast<std::size_t>(i * kPositions + p)];
          CHECK(key == (p < n ? static_cast<float>(k[from]) : 0.0f));
          if (p < n)
            CHECK(values[static_cast<std::size_t>(p * d + i)] == static_cast<float>(v[from]));
        }
        if (p < n && d > d_head) CHECK(values[static_cast<std::size_t>(p * d + d - 1)] == 0.0f);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a whole block of committed positions is taken as it is stored", "", float,
                   fd::f16) {
  using Keys = fd::cpu::KeyBlock<fd::cpu::NativeArch, TestType>;
  using Values = fd::cpu::ValueBlock<fd::cpu::NativeArch, TestType>;
  for (const int d_head : {1, 6, 16, 40, 64}) {
    CAPTURE(d_head);
    const int d = (d_head + 15) / 16 * 16;
    std::vector<TestType> k;
    std::vector<TestType> v;
    for (int i = 0; i < kPositions * d_head; ++i) {
      k.push_back(TestType(static_cast<float>(i) * 0.25f));
      v.push_back(TestType(static_cast<float>(-i)));
    }
    std::vector<float> keys(static_cast<std::size_t>(kPositions * d), -1.0f);
    std::vector<float> values(keys.size(), -1.0f);
    Keys::load_whole(k.data(), d_head, keys.data());
    Values::load_whole(v.data(), d_head, d, values.data());
    for (int p = 0; p < kPositions; ++p) {
      for (int i = 0; i < d; ++i) {
        const float expected = i < d_head ? static_cast<float>(-(p * d_head + i)) : 0.0f;
        CHECK(values[fd::idx(p * d + i)] == expected);
        if (i >= d_head) continue;
        CHECK(keys[fd::idx(i * kPositions + p)] == static_cast<float>(i * kPositions + p) * 0.25f);
      }
    }
  }
}

TEST_CASE("keys in q8_0 are gathered into the order of a stored block, values stay rows") {
  using Keys = fd::cpu::KeyBlock<fd::cpu::NativeArch, fd::q8_0>;
  using Values = fd::cpu::ValueBlock<fd::cpu::NativeArch, fd::q8_0>;
  constexpr int kHead = 128;
  constexpr std::size_t kRow = kHead / 32;
  std::vector<fd::q8_0> stored(40 * kRow);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    stored[i].scale = fd::f16(static_cast<float>(i));
    for (int c = 0; c < 32; ++c) stored[i].codes[c] = static_cast<std::int8_t>(i * 7 + fd::idx(c));
  }
  const std::vector<std::int32_t> rows{5, 39, 0, 17, 5};
  const auto n = static_cast<int>(rows.size());
  std::vector<fd::q8_0> expected(kPositions * kRow);  // zeros behind them
  std::memset(static_cast<void*>(expected.data()), 0, expected.size() * sizeof(fd::q8_0));
  for (std::size_t p = 0; p < rows.size(); ++p) {
    std::copy_n(&stored[fd::idx(rows[p]) * kRow], kRow, &expected[p * kRow]);
  }
  std::vector<fd::q8_0> block(2 * kPositions * kRow);
  Keys::load(stored.data(), kHead, rows.data(), n, block.data());
  std::vector<fd::q8_0> as_rows(expected.size());
  fd::cpu::key_block_to_rows(block.data(), kHead, as_rows.data());
  CHECK(std::memcmp(as_rows.data(), expected.data(), expected.size() * sizeof(fd::q8_0)) == 0);
  Values::load(stored.data(), kHead, rows.data(), n, block.data());
  CHECK(std::memcmp(block.data(), expected.data(), rows.size() * kRow * sizeof(fd::q8_0)) == 0);
}
