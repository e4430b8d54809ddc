#include <foredraft/sampling/logprobs.hpp>

#include <cmath>
#include <foredraft/core/rng.hpp>
#include <limits>
#include <numeric>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The definition, by a full sort.
std::vector<fd::TokenLogprob> ranking(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<fd::TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](fd::TokenId a, fd::TokenId b) {
    return logits[fd::idx(a)] > logits[fd::idx(b)];
  });
  std::vector<fd::TokenLogprob> all;
  for (const fd::TokenId id : ids) {
    const double logit = logits[fd::idx(id)];
    if (!std::isinf(logit)) all.push_back({id, static_cast<float>(logit - std::log(sum))});
  }
  return all;
}

/// Values on a coarse grid, so that there are many ties, and some impossible tokens.
std::vector<float> random_row(std::size_t n, std::uint32_t seed) {
  std::vector<float> row(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto words = fd::philox4x32({i, seed, 0, 0}, {1, 2});
    row[i] = words[1] % 7 == 0 ? -kInfinity : static_cast<float>(words[0] % 41) * 0.25f - 5.0f;
  }
  row[0] = 1.0f;
  return row;
}

std::string code_of(const std::vector<float>& row) {
  try {
    fd::logprobs_of(row, 0, 1);
  } catch (const fd::Error& error) {
    return std::string(fd::name_of(error.code()));
  }
  return "none";
}

}  // namespace

TEST_CASE("log probabilities are those of the definition, for every k") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto row = random_row(60, seed);
    const auto truth = ranking(row);
    for (int k = 0; k <= 60; ++k) {
      const auto top = fd::top_logprobs(row, k);
      REQUIRE(top.size() == std::min(truth.size(), fd::idx(k)));
      for (std::size_t i = 0; i < top.size(); ++i) {
        CHECK(top[i].token == truth[i].token);
        CHECK(top[i].logprob == Approx(truth[i].logprob).margin(1e-6));
      }
    }
  }
}

TEST_CASE("the token's own value is that of the ranking to the bit, and needs no ranking") {
  const auto row = random_row(100, 3);
  for (const auto& [token, logprob] : fd::top_logprobs(row, 100)) {
    const fd::Logprobs found = fd::logprobs_of(row, token, 5);
    CHECK(found.logprob == logprob);
    CHECK(found.top == fd::top_logprobs(row, 5));
    CHECK(fd::logprobs_of(row, token, 0) == fd::Logprobs{logprob, {}});
  }
}

TEST_CASE("logprobs: ties go to the lower id") {
  const std::vector<float> row(50, 2.0f);
  const auto top = fd::top_logprobs(row, 3);
  REQUIRE(top.size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(top[fd::idx(i)].token == i);
  CHECK(top[0].logprob == Approx(-std::log(50.0)));
}

TEST_CASE("probabilities add up to 1, far from 0 and far apart too") {
  for (const float offset : {0.0f, 1e4f, -1e4f, 3e38f}) {
    std::vector<float> row = random_row(40, 9);
    for (float& logit : row) logit += offset;
    double sum = 0;
    for (const auto& token : fd::top_logprobs(row, 40)) sum += std::exp(double{token.logprob});
    CHECK(sum == Approx(1.0).epsilon(1e-6));
  }
  const auto far = fd::top_logprobs(std::vector<float>{0.0f, -1000.0f}, 2);
  CHECK(far[0].logprob == 0.0f);
  CHECK(far[1].logprob == -1000.0f);
}

TEST_CASE("an impossible token has -inf and is never among the best") {
  const std::vector<float> row{-kInfinity, 0.0f, -kInfinity};
  const fd::Logprobs found = fd::logprobs_of(row, 0, 3);
  CHECK(found.logprob == -kInfinity);
  CHECK(found.top == std::vector<fd::TokenLogprob>{{1, 0.0f}});
}

TEST_CASE("a row without a law is refused") {
  CHECK(code_of({0.0f, std::nanf("")}) == "invalid-logits");
  CHECK(code_of({0.0f, kInfinity}) == "invalid-logits");
  CHECK(code_of({-kInfinity, -kInfinity}) == "invalid-logits");
  CHECK(code_of({0.0f, -kInfinity}) == "none");
}
