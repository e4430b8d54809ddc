#include <foredraft/backend/cpu/key_value_block.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

// In the instruction set that this file is compiled for; attention.test.cpp covers the others.
TEMPLATE_TEST_CASE("keys are transposed, values converted, absent positions 0", "", float,
                   fd::f16) {
  using Block = fd::cpu::KeyValueBlock<fd::cpu::NativeArch, TestType>;
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
      std::vector<float> keys(static_cast<std::size_t>(Block::kPositions * d), -1.0f);
      std::vector<float> values(keys.size(), -1.0f);
      Block block{.keys = keys.data(), .values = values.data()};
      block.load(k.data(), v.data(), d_head, d, rows.data(), n);
      for (int p = 0; p < Block::kPositions; ++p) {
        for (int i = 0; i < d_head; ++i) {
          const auto from =
              static_cast<std::size_t>(p < n ? rows[static_cast<std::size_t>(p)] * d_head + i : 0);
          const float key = keys[static_cast<std::size_t>(i * Block::kPositions + p)];
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
  using Block = fd::cpu::KeyValueBlock<fd::cpu::NativeArch, TestType>;
  constexpr int kPositions = Block::kPositions;
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
    Block block{.keys = keys.data(), .values = values.data()};
    block.load_whole(k.data(), v.data(), d_head, d);
    for (int p = 0; p < kPositions; ++p) {
      for (int i = 0; i < d; ++i) {
        const float expected = i < d_head ? static_cast<float>(-(p * d_head + i)) : 0.0f;
        CHECK(block.values[p * d + i] == expected);
        if (i >= d_head) continue;
        CHECK(block.keys[i * kPositions + p] == static_cast<float>(i * kPositions + p) * 0.25f);
      }
    }
  }
}
