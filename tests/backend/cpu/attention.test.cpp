#include <foredraft/backend/cpu/attention.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "backend/cpu/attention_case.hpp"
#include "backend/cpu/for_each_table.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cpu::KernelTable;

namespace {

// Around the borders of vectors and blocks.
constexpr int kSizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 500};

/// Equal to the bit for all floats; -0 and 0 differ.
bool same_bits(const float* a, const float* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

template <typename K, typename V>
void check_against_double(const KernelTable& kernels, const AttentionCase<K, V>& c,
                          double bound = 2e-6) {
  const std::vector<float> out = c.run(kernels);
  std::vector<double> slack;
  for (int node = 0; node < c.nodes(); ++node) {
    for (int head = 0; head < c.group; ++head) {
      const std::vector<double> expected = c.expected(kernels, node, head, slack);
      double worst = 0;
      for (std::size_t d = 0; d < expected.size(); ++d) {
        const auto at = fd::idx((node * c.group + head) * c.d_head) + d;
        worst = std::fmax(worst, std::abs(out[at] - expected[d]) - slack[d]);
      }
      CHECK(worst < bound);
    }
  }
}

template <typename K, typename V>
void check_alone(const KernelTable& kernels, const AttentionCase<K, V>& c) {
  const std::vector<float> together = c.run(kernels);
  const auto width = fd::idx(c.group * c.d_head);
  for (int node = 0; node < c.nodes(); ++node) {
    CAPTURE(node);
    const AttentionCase<K, V> one = c.alone(node);
    const std::vector<float> as_tree = one.run(kernels);
    const std::vector<float> as_chain = one.run(kernels, 1, true);
    CHECK(same_bits(&together[fd::idx(node) * width], as_tree.data(), width));
    CHECK(same_bits(as_chain.data(), as_tree.data(), width));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("attention against double", "", float, fd::f16) {
  for_each_table([](const KernelTable& kernels) {
    for (const int size : kSizes) {
      CAPTURE(size);
      check_against_double(kernels, AttentionCase<TestType>(64, 3, size, random_tree(5, 1), 11));
    }
    for (const int d_head : {2, 16, 40, 80, 128, 256}) {
      for (const int group : {1, 2, 7, 9}) {
        CAPTURE(d_head, group);
        check_against_double(kernels,
                             AttentionCase<TestType>(d_head, group, 37, random_tree(4, 2), 12));
      }
    }
  });
}

TEST_CASE("attention over a quantized cache against double") {
  for_each_table([](const KernelTable& kernels) {
    for (const int size : kSizes) {
      CAPTURE(size);
      check_against_double(kernels, AttentionCase<fd::q8_0>(64, 3, size, random_tree(5, 1), 11));
    }
    for (const int d_head : {64, 128, 192, 256}) {
      for (const int group : {1, 2, 7, 9}) {
        CAPTURE(d_head, group);
        check_against_double(kernels,
                             AttentionCase<fd::q8_0>(d_head, group, 37, random_tree(4, 2), 12));
      }
    }
  });
}

TEMPLATE_TEST_CASE("a row of a tree is the row alone, to the bit", "", float, fd::f16, fd::bf16,
                   fd::q8_0) {
  for_each_table([](const KernelTable& kernels) {
    unsigned seed = 0;
    for (const int size : kSizes) {
      CAPTURE(size);
      ++seed;
      check_alone(kernels, AttentionCase<TestType>(64, 3, size, random_tree(16, seed), seed));
    }
    constexpr int kOdd = std::is_same_v<TestType, fd::q8_0> ? 64 : 40;
    check_alone(kernels, AttentionCase<TestType>(kOdd, 1, 61, random_tree(64, 5), 5));
    check_alone(kernels, AttentionCase<TestType>(128, 6, 29, random_tree(12, 6), 6));
  });
}

TEMPLATE_TEST_CASE("a chain is the same with and without its paths, and as rows alone", "", float,
                   fd::f16, fd::bf16, fd::q8_0) {
  for_each_table([](const KernelTable& kernels) {
    for (const int size : kSizes) {
      CAPTURE(size);
      const AttentionCase<TestType> c(64, 3, size, chain_of(16), 21);
      CHECK(c.run(kernels) == c.run(kernels, 1, true));
      check_alone(kernels, c);
    }
    const AttentionCase<TestType> prompt(64, 2, 0, chain_of(150), 22);
    CHECK(prompt.run(kernels) == prompt.run(kernels, 1, true));
  });
}

TEMPLATE_TEST_CASE("how queries are cut among workers does not matter", "", fd::f16, fd::bf16,
                   fd::q8_0) {
  for_each_table([](const KernelTable& kernels) {
    const AttentionCase<TestType> c(64, 6, 70, random_tree(13, 3), 31);
    const std::vector<float> whole = c.run(kernels);
    for (const int cuts : {2, 3, 4, 7, 78}) CHECK(c.run(kernels, cuts) == whole);
  });
}

TEMPLATE_TEST_CASE("capped scores against double, and as rows alone", "", float, fd::f16,
                   fd::q8_0) {
  for_each_table([](const KernelTable& kernels) {
    for (const float softcap : {0.5f, 2.0f, 50.0f}) {
      for (const int size : {0, 31, 65}) {
        CAPTURE(softcap, size);
        AttentionCase<TestType> c(64, 3, size, random_tree(9, 3), 81);
        c.softcap = softcap;
        // A score is off by units in the last place of the cap, and a weight by as much of itself.
        check_against_double(kernels, c, 2e-6 + 3e-7 * double{softcap});
        check_alone(kernels, c);
      }
    }
  });
}

// Windows that begin at a border of blocks, within one, and of less than one.
constexpr int kWindows[] = {1, 2, 7, 31, 32, 33, 64, 100};

TEMPLATE_TEST_CASE("a window against double", "", float, fd::f16) {
  for_each_table([](const KernelTable& kernels) {
    for (const int size : {0, 5, 32, 63, 64, 65, 200}) {
      for (const int window : kWindows) {
        CAPTURE(size, window);
        AttentionCase<TestType> tree(40, 3, size, random_tree(24, 1), 11);
        tree.window = window;
        check_against_double(kernels, tree);
      }
    }
  });
}

TEMPLATE_TEST_CASE("a row with a window is the row alone, to the bit, from a ring too", "", float,
                   fd::f16, fd::bf16, fd::q8_0) {
  for_each_table([](const KernelTable& kernels) {
    unsigned seed = 60;
    for (const int size : {0, 5, 31, 32, 63, 64, 65, 200}) {
      for (const int window : kWindows) {
        CAPTURE(size, window);
        for (const bool tree : {false, true}) {
          ++seed;
          AttentionCase<TestType> c(64, 3, size, tree ? random_tree(40, seed) : chain_of(40), seed);
          c.window = window;
          check_alone(kernels, c);
          const std::vector<float> whole = c.run(kernels);
          CHECK(c.run(kernels, 5) == whole);
          if (!tree) CHECK(c.run(kernels, 1, true) == whole);
          // Room for the window and what is staged.
          c.ring = (window + 40 + 31) / 32 * 32;
          CHECK(c.run(kernels) == whole);
          CHECK(c.run(kernels, 3) == whole);
          if (!tree) CHECK(c.run(kernels, 1, true) == whole);
        }
      }
    }
  });
}

TEMPLATE_TEST_CASE("what lies before a window makes no difference, NaN included", "", float,
                   fd::f16) {
  for_each_table([](const KernelTable& kernels) {
    AttentionCase<TestType> c(40, 2, 90, chain_of(5), 71);
    c.window = 20;  // from 71 on, in the block of 64
    const std::vector<float> before = c.run(kernels);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < std::size_t{71} * 40; ++i) c.k[i] = c.v[i] = TestType(nan);
    CHECK(c.run(kernels) == before);
    CHECK(c.run(kernels, 1, true) == before);
  });
}

TEST_CASE("a window that holds all positions is none") {
  for_each_table([](const KernelTable& kernels) {
    AttentionCase<fd::f16> c(64, 3, 70, random_tree(16, 9), 81);
    const std::vector<float> all = c.run(kernels);
    c.window = 86;
    CHECK(c.run(kernels) == all);
  });
}

// Keys and values in different formats; the pairs of equal ones are above.
using F32F16 = AttentionCase<float, fd::f16>;
using F32Q8 = AttentionCase<float, fd::q8_0>;
using F16F32 = AttentionCase<fd::f16, float>;
using F16Q8 = AttentionCase<fd::f16, fd::q8_0>;
using Q8F32 = AttentionCase<fd::q8_0, float>;
using Q8F16 = AttentionCase<fd::q8_0, fd::f16>;

TEMPLATE_TEST_CASE("keys and values in different formats against double, and as rows alone", "",
                   F32F16, F32Q8, F16F32, F16Q8, Q8F32, Q8F16) {
  for_each_table([](const KernelTable& kernels) {
    for (const int size : {0, 31, 32, 65}) {
      CAPTURE(size);
      const TestType tree(64, 3, size, random_tree(16, 1), 11);
      check_against_double(kernels, tree);
      check_alone(kernels, tree);
      CHECK(tree.run(kernels, 5) == tree.run(kernels));
      TestType chain(128, 2, size, chain_of(20), 12);
      CHECK(chain.run(kernels, 1, true) == chain.run(kernels));
      chain.window = 33;
      check_alone(kernels, chain);
      const std::vector<float> whole = chain.run(kernels);
      chain.ring = 96;
      CHECK(chain.run(kernels, 3, true) == whole);
    }
  });
}

TEST_CASE("values do not know how keys are stored, nor keys how values are") {
  // Floats that all formats hold as they are: what differs then is the part that reads them.
  for_each_table([](const KernelTable& kernels) {
    AttentionCase<float, float> exact(64, 2, 70, random_tree(9, 4), 91);
    for (float& x : exact.k) x = std::round(x * 8);
    for (float& x : exact.v) x = std::round(x * 8);
    AttentionCase<float, fd::f16> half(64, 2, 70, random_tree(9, 4), 91);
    half.k = exact.k;
    half.q = exact.q;
    for (std::size_t i = 0; i < half.v.size(); ++i) half.v[i] = fd::f16(exact.v[i]);
    CHECK(half.run(kernels) == exact.run(kernels));
    AttentionCase<float, fd::q8_0> quantized(64, 2, 70, random_tree(9, 4), 91);
    quantized.k = exact.k;
    AttentionCase<fd::f16, fd::q8_0> both(64, 2, 70, random_tree(9, 4), 91);
    both.v = quantized.v;
    both.q = quantized.q;
    for (std::size_t i = 0; i < both.k.size(); ++i) both.k[i] = fd::f16(exact.k[i]);
    CHECK(both.run(kernels) == quantized.run(kernels));
    // Where a query sees no whole block, weights are not rounded.
    AttentionCase<float, float> few(64, 2, 22, random_tree(9, 4), 91);
    for (float& x : few.v) x = std::round(x * 8);
    for (std::size_t row = 0; row * 32 < few.v.size(); ++row) few.v[row * 32] = 127;
    AttentionCase<float, fd::q8_0> few_codes(64, 2, 22, random_tree(9, 4), 91);
    few_codes.k = few.k;
    few_codes.q = few.q;
    for (std::size_t i = 0; i < few_codes.v.size(); ++i)
      few_codes.v[i] = fd::q8_0(few.v.data() + 32 * i);
    CHECK(few_codes.run(kernels) == few.run(kernels));
  });
}

TEST_CASE("scores far apart, and equal ones") {
  for_each_table([](const KernelTable& kernels) {
    AttentionCase<float> c(16, 1, 100, {-1}, 41);
    for (float& x : c.q) x *= 60.0f;  // weights underflow, the running maximum moves often
    check_against_double(kernels, c);
    for (float& x : c.k) x = 0.25f;
    check_against_double(kernels, c);
  });
}

TEST_CASE("a NaN in a quantized cache stays with those who see it") {
  for_each_table([](const KernelTable& kernels) {
    constexpr int kHead = 64;
    constexpr std::size_t kWidth = 2 * kHead;  // of a row of queries
    AttentionCase<fd::q8_0> c(kHead, 2, 40, {-1, 0, 0, 1}, 53);
    const std::vector<float> before = c.run(kernels);
    const std::vector<float> bad(fd::q8_0::kValues, std::numeric_limits<float>::infinity());
    const auto check = [&](const AttentionCase<fd::q8_0>& spoilt, auto sees) {
      const std::vector<float> after = spoilt.run(kernels);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (sees(i / kWidth)) {
          CHECK(std::isnan(after[i]));
        } else {
          CHECK(after[i] == before[i]);
        }
      }
    };
    // Staged node 1, which node 3 follows.
    AttentionCase<fd::q8_0> staged = c;
    staged.k[(40 + 1) * 2] = fd::q8_0(bad.data());
    check(staged, [](std::size_t node) { return node == 1 || node == 3; });
    // A key of the whole block, and one of the incomplete one.
    for (const std::size_t row : {5, 35}) {
      AttentionCase<fd::q8_0> committed = c;
      committed.k[row * 2 + 1] = fd::q8_0(bad.data());
      check(committed, [](std::size_t) { return true; });
      // A value.
      committed = c;
      committed.v[row * 2] = committed.v[row * 2 + 1] = fd::q8_0(bad.data());
      check(committed, [](std::size_t) { return true; });
    }
    // A query of node 2.
    AttentionCase<fd::q8_0> query = c;
    for (std::size_t i = 0; i < kWidth; ++i) query.q[2 * kWidth + i] = bad[0];
    check(query, [](std::size_t node) { return node == 2; });
  });
}

TEST_CASE("a NaN stays with those who see it") {
  for_each_table([](const KernelTable& kernels) {
    // Node 1 and node 2 are siblings; node 3 follows node 1.
    AttentionCase<float> c(16, 2, 40, {-1, 0, 0, 1}, 51);
    const std::vector<float> before = c.run(kernels);
    for (int d = 0; d < 16; ++d) {
      c.k[fd::idx((40 + 1) * 16 + d)] = std::numeric_limits<float>::quiet_NaN();
      c.v[fd::idx((40 + 1) * 16 + d)] = std::numeric_limits<float>::quiet_NaN();
    }
    const std::vector<float> after = c.run(kernels);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t node = i / 32;
      if (node == 1 || node == 3) {
        CHECK(std::isnan(after[i]));
      } else {
        CHECK(after[i] == before[i]);
      }
    }
    // Rows of a chain do not see what comes after them.
    AttentionCase<float> chain(16, 1, 5, chain_of(3), 52);
    const std::vector<float> whole = chain.run(kernels, 1, true);
    chain.v.back() = chain.k.back() = std::numeric_limits<float>::infinity();
    const std::vector<float> spoilt = chain.run(kernels, 1, true);
    for (std::size_t i = 0; i < 32; ++i) CHECK(spoilt[i] == whole[i]);
  });
}
