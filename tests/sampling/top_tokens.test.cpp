#include <foredraft/sampling/top_tokens.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <foredraft/sampling/greatest_logit.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// By sorting all of them.
std::vector<fd::TokenId> sorted(const std::vector<float>& logits, std::size_t k) {
  std::vector<fd::TokenId> ids;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInf) ids.push_back(static_cast<fd::TokenId>(i));
  }
  const auto of = [&](fd::TokenId id) { return logits[fd::idx(id)]; };
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return of(a) > of(b); });
  ids.resize(std::min(ids.size(), k));
  return ids;
}

template <int K>
std::vector<fd::TokenId> top(const std::vector<float>& logits, const std::vector<float>& maxima) {
  std::array<fd::TokenId, K> best;
  const int n = maxima.empty() ? fd::top_tokens<K>(logits, best)
                               : fd::top_tokens<K>(logits, fd::best_runs<K>(maxima), best);
  return {best.begin(), best.begin() + n};
}

}  // namespace

TEST_CASE("the best tokens of a row are those of the sorted row, with maxima and without") {
  std::mt19937 random(4);
  std::vector<float> maxima;
  for (const std::size_t n : {1u, 5u, 127u, 128u, 129u, 1000u, 5000u}) {
    for (const unsigned levels : {1u, 3u, 50u, 1u << 20}) {  // with ties, and without
      for (int round = 0; round < 20; ++round) {
        std::vector<float> logits(n);
        for (float& x : logits) {
          x = static_cast<float>(random() % levels) / 8 - 10;
          if (random() % 10 == 0) x = -kInf;
        }
        logits[random() % n] = 1;
        fd::maxima_of_runs(logits, maxima);
        CHECK(top<8>(logits, maxima) == sorted(logits, 8));
        CHECK(top<8>(logits, {}) == sorted(logits, 8));
        CHECK(top<1>(logits, maxima) == sorted(logits, 1));
      }
    }
  }
}

TEST_CASE("a row of nothing has no best tokens, and NaN is none") {
  CHECK(top<4>({}, {}).empty());
  CHECK(top<4>(std::vector<float>(300, -kInf), std::vector<float>(3, -kInf)).empty());
  std::vector<float> logits(300, -kInf);
  logits[7] = std::nanf("");
  logits[299] = 2;
  CHECK(top<4>(logits, {}) == std::vector<fd::TokenId>{299});
}
