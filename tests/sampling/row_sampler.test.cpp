#include <foredraft/sampling/row_sampler.hpp>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

fd::DraftTree two_branches() {
  fd::DraftTree draft;
  draft.reset(0);
  draft.add(0, 1);
  draft.add(0, 2);
  draft.add(2, 1);
  return draft;
}

}  // namespace

TEST_CASE("p of a node comes from its own row") {
  const fd::DraftTree draft = two_branches();
  const Rows rows(draft, {{0, 0, 0}, {0, 0, -INFINITY}, {-INFINITY, 0, 0}, {0, -INFINITY, 0}},
                  {.temperature = 1.0f});
  CHECK(rows.sampler.law(1).ids == std::vector<fd::TokenId>{0, 1});
  CHECK(rows.sampler.law(2).ids == std::vector<fd::TokenId>{1, 2});
  CHECK(rows.sampler.law(3).ids == std::vector<fd::TokenId>{0, 2});
  CHECK(rows.sampler.law(0).p == std::vector<double>(3, 1.0 / 3));
}

TEST_CASE("siblings speak of the same position") {
  const fd::DraftTree draft = two_branches();
  const Rows rows(draft, std::vector<std::vector<float>>(4, {0, 0, 0}), {}, 41);
  CHECK(rows.sampler.anchor_position() == 41);
  CHECK(rows.sampler.position_after(0) == 42);
  CHECK(rows.sampler.position_after(1) == 43);
  CHECK(rows.sampler.position_after(2) == 43);
  CHECK(rows.sampler.position_after(3) == 44);
}

TEST_CASE("at temperature 0 the best token is all that is asked of a row") {
  const fd::DraftTree draft = two_branches();
  const Rows rows(draft, {{0, 3, 1}, {5, 0, 0}, {0, 0, 9}, {0, 1, 1}}, {});
  CHECK(rows.scores.need() == fd::RowNeed::kArgmax);
  CHECK(rows.sampler.law(0).ids == std::vector<fd::TokenId>{1});
  CHECK(rows.sampler.law(3).p == std::vector<double>{1.0});
  CHECK(rows.sampler.argmax(2) == 2);
}

TEST_CASE("a damaged row is an error when it is read, and only then") {
  const fd::DraftTree draft = two_branches();
  for (const fd::SamplingOptions& sampling :
       {fd::SamplingOptions{}, fd::SamplingOptions{.temperature = 1.0f}}) {
    const Rows rows(draft, {{0, 1, 2}, {0, NAN, 2}, {-INFINITY, -INFINITY, -INFINITY}, {1, 1, 1}},
                    sampling);
    CHECK(rows.sampler.argmax(0) == 2);
    CHECK_THROWS_AS(rows.sampler.argmax(1), fd::Error);
    for (const fd::NodeIndex node : {1, 2}) {  // the message says which row
      try {
        (void)rows.sampler.law(node);
        FAIL("it was taken");
      } catch (const fd::Error& error) {
        CHECK(error.code() == fd::ErrorCode::kInvalidLogits);
        const auto position = std::to_string(rows.sampler.position_after(node));
        CHECK(error.found().ends_with("the token at position " + position));
      }
      if (sampling.greedy()) continue;
      fd::Philox rng;
      try {
        (void)rows.sampler.draw(node, {}, rng);
        FAIL("it was drawn from");
      } catch (const fd::Error& error) {
        CHECK(error.code() == fd::ErrorCode::kInvalidLogits);
        const auto position = std::to_string(rows.sampler.position_after(node));
        CHECK(error.found().ends_with("the token at position " + position));
      }
    }
    CHECK(rows.sampler.law(3)(0) > 0);
  }
}

TEST_CASE("a draw is one from p, with cuts and without") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  fd::Philox rng(10);
  fd::SamplingOptions penalised{.temperature = 1.3f};
  penalised.presence_penalty = 2.0f;
  for (const fd::SamplingOptions& sampling :
       {fd::SamplingOptions{.temperature = 1.0f}, fd::SamplingOptions{.temperature = 0.3f},
        fd::SamplingOptions{.temperature = 1.0f, .top_k = 20},
        fd::SamplingOptions{.temperature = 1.0f, .top_p = 0.9f}, penalised}) {
    int different = 0;
    for (int i = 0; i < 200; ++i) {
      std::vector<std::vector<float>> logits(4, std::vector<float>(700));
      for (auto& row : logits)
        for (float& x : row) x = normal(random);
      const fd::DraftTree draft = two_branches();
      const Rows rows(draft, logits, sampling);
      for (fd::NodeIndex node = 0; node < 4; ++node) {
        const fd::RngKey key{fd::Purpose::kTargetSample, i, 0};
        const fd::Law& p = rows.sampler.law(node);
        const fd::TokenId token = p.ids[rng.categorical(key, p.ids, p.p)];
        different += rows.sampler.draw(node, key, rng) != token;
      }
    }
    CHECK(different == 0);
  }
}

TEST_CASE("the probability of a token is that of the law, in whatever order both are asked for") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  fd::SamplingOptions penalised{.temperature = 1.3f};
  penalised.presence_penalty = 2.0f;
  for (const fd::SamplingOptions& sampling :
       {fd::SamplingOptions{}, fd::SamplingOptions{.temperature = 0.7f},
        fd::SamplingOptions{.temperature = 1.0f, .top_k = 20}, penalised}) {
    std::vector<std::vector<float>> logits(4, std::vector<float>(700));
    for (auto& row : logits)
      for (float& x : row) x = normal(random);
    logits[1][5] = -INFINITY;
    const fd::DraftTree draft = two_branches();
    const Rows rows(draft, logits, sampling);
    const Rows others(draft, logits, sampling);
    double worst = 0;
    for (const fd::NodeIndex node : {0, 1, 1, 3, 2, 0}) {
      for (const fd::TokenId token : {0, 5, 127, 128, 699, 700}) {
        const double p = rows.sampler.probability(node, token);
        const auto differs_from = [&](double other) {
          worst = std::max(worst, std::abs(p - other));
        };
        differs_from(others.sampler.probability(node, token));
        (void)others.sampler.law((node + 1) % 4);
        differs_from(others.sampler.probability(node, token));
        differs_from(others.sampler.law(node)(token));
        differs_from(others.sampler.probability(node, token));
      }
    }
    CHECK(worst < 1e-15);
  }
}

TEST_CASE("sums are asked for where they spare a look at the whole row") {
  using fd::RowNeed;
  const auto need = [](const fd::SamplingOptions& options) {
    return std::pair(fd::RowSampler::need(options), fd::RowSampler::need_with_probability(options));
  };
  CHECK(need({}) == std::pair(RowNeed::kArgmax, RowNeed::kArgmax));
  CHECK(need({.presence_penalty = 1.0f}) == std::pair(RowNeed::kLogits, RowNeed::kLogits));
  CHECK(need({.temperature = 1.0f}) == std::pair(RowNeed::kLogits, RowNeed::kSums));
  CHECK(need({.temperature = 1.0f, .top_k = 9}) == std::pair(RowNeed::kLogits, RowNeed::kLogits));
  CHECK(need({.temperature = 1.0f, .min_p = 0.1f}) ==
        std::pair(RowNeed::kLogits, RowNeed::kLogits));
  CHECK(need({.temperature = 1.0f, .top_p = 0.9f}) == std::pair(RowNeed::kSums, RowNeed::kSums));
  CHECK(need({.temperature = 1.0f, .top_k = 9, .top_p = 0.9f}) ==
        std::pair(RowNeed::kLogits, RowNeed::kLogits));
  CHECK(need({.temperature = 1.0f, .top_p = 0.9f, .presence_penalty = 1.0f}) ==
        std::pair(RowNeed::kLogits, RowNeed::kLogits));
}

TEST_CASE("penalties count the draft down to the node, and nothing beside that path") {
  const fd::DraftTree draft = two_branches();  // 1; 2, then 1
  const fd::SamplingOptions options{.presence_penalty = 5.0f, .penalty_last_n = 2};
  const std::vector<fd::TokenId> tokens{2, 0, 0};
  const Rows rows(draft, std::vector<std::vector<float>>(4, {3, 2, 1}), options, tokens);
  CHECK(rows.sampler.argmax(0) == 1);  // seen: 0
  CHECK(rows.sampler.argmax(1) == 2);  // seen: 0, 1
  CHECK(rows.sampler.argmax(2) == 1);  // seen: 0, 2
  CHECK(rows.sampler.argmax(3) == 0);  // seen: 2, 1
  CHECK(rows.sampler.law(3).ids == std::vector<fd::TokenId>{0});
}

TEST_CASE("p under other options than the round's") {
  const fd::DraftTree draft = two_branches();
  const Rows rows(draft, std::vector<std::vector<float>>(4, {3, 2, 1}), {.temperature = 1.0f});
  CHECK(rows.sampler.law(0).size() == 3);
  CHECK(rows.sampler.law(0, {.temperature = 1.0f, .top_k = 2}).ids ==
        std::vector<fd::TokenId>{0, 1});
  CHECK(rows.sampler.law(0).size() == 3);
}

TEST_CASE("a round does not see the laws of the one before") {
  const fd::DraftTree draft = two_branches();
  const fd::SamplingOptions options{.temperature = 1.0f};
  const Rows before(draft, std::vector<std::vector<float>>(4, {3, 2, 1}), options);
  const Rows now(draft, std::vector<std::vector<float>>(4, {1, 2, 3}), options);
  fd::RowSampler sampler;
  sampler.begin(options, before.scores, draft, before.tokens);
  CHECK(sampler.law(0).p[0] > 0.5);
  sampler.begin(options, now.scores, draft, now.tokens);
  CHECK(sampler.law(0).p[0] < 0.5);
}
