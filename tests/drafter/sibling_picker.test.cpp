#include <foredraft/drafter/sibling_picker.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/catch.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
const std::vector<float> kRow{0.3f, 1.1f, -0.4f, 0.9f, 1.1f};
const Tokens kText{2, 1, 0, 1};

/// Children of the second node of {anchor, 3} from kRow.
struct Picked {
  Picked(fd::Rng& rng, const fd::SamplingOptions& law, fd::DraftSampling how, fd::Siblings drawn,
         int count, const std::vector<float>& logits = kRow) {
    const fd::Context context{kText, {}, law, true, &rng};
    draft.reset(kText.back());
    draft.extend(3);
    fd::SiblingPicker picker;
    picker.begin(context, law, how, drawn);
    fd::Scores scores;
    scores.reset(picker.want(count), 2, static_cast<int>(logits.size()));
    scores.set_row(0, std::vector<float>(logits.size(), 0.0f));
    scores.set_row(1, logits);
    picker.add(1, count, scores, 1, draft);
    for (fd::NodeIndex node = 2; node < draft.size(); ++node) {
      CHECK(draft.parent(node) == 1);
      tokens.push_back(draft.token(node));
    }
  }

  fd::DraftTree draft;
  Tokens tokens;
};

/// q by its definition. The text down to the parent is kText and 3.
std::vector<double> q_of(const fd::SamplingOptions& law, const std::vector<float>& logits = kRow) {
  Tokens text = kText;
  text.push_back(3);
  return law::p_of(logits, law, text);
}

const std::vector<fd::SamplingOptions> kLaws{
    {.temperature = 1.0f},
    {.temperature = 0.6f, .top_k = 3},
    {.temperature = 1.5f, .top_p = 0.8f},
    {.temperature = 1.0f, .repeat_penalty = 1.4f, .frequency_penalty = 0.5f},
    {.temperature = 1.0f, .presence_penalty = 0.7f, .penalty_last_n = 2},
};

}  // namespace

TEST_CASE("the q that is handed over is the law of the draws") {
  for (const fd::SamplingOptions& law : kLaws) {
    CAPTURE(law.temperature, law.top_k, law.top_p, law.repeat_penalty);
    const std::vector<double> q = q_of(law);
    std::map<fd::TokenId, double> seen;
    EnumeratingRng rng;
    rng.for_each_path([&] {
      const Picked picked(rng, law, fd::DraftSampling::kDrawn, fd::Siblings::kIndependent, 1);
      CHECK(picked.draft.siblings(1) == fd::Siblings::kIndependent);
      for (std::size_t id = 0; id < q.size(); ++id) {
        CHECK(std::abs(picked.draft.law(1)(static_cast<fd::TokenId>(id)) - q[id]) <= 1e-12);
      }
      seen[picked.tokens.front()] += rng.weight();
    });
    for (std::size_t id = 0; id < q.size(); ++id) {
      CHECK(std::abs(seen[static_cast<fd::TokenId>(id)] - q[id]) <= 1e-12);
    }
  }
}

TEST_CASE("independent siblings are independent, and equal ones stay") {
  const std::vector<double> q = q_of(kLaws[0]);
  std::map<Tokens, double> seen;
  EnumeratingRng rng;
  rng.for_each_path([&] {
    const Picked picked(rng, kLaws[0], fd::DraftSampling::kDrawn, fd::Siblings::kIndependent, 3);
    CHECK(picked.tokens.size() == 3);
    seen[picked.tokens] += rng.weight();
  });
  CHECK(seen.size() == 125);
  for (const auto& [tokens, probability] : seen) {
    double expected = 1;
    for (const fd::TokenId token : tokens) expected *= q[fd::idx(token)];
    CHECK(std::abs(probability - expected) <= 1e-12);
  }
}

TEST_CASE("siblings without replacement: each has the law q without those before it") {
  for (const fd::SamplingOptions& law : kLaws) {
    const std::vector<double> q = q_of(law);
    std::map<Tokens, double> seen;
    EnumeratingRng rng;
    rng.for_each_path([&] {
      const Picked picked(rng, law, fd::DraftSampling::kDrawn, fd::Siblings::kWithoutReplacement,
                          3);
      CHECK(picked.draft.siblings(1) == fd::Siblings::kWithoutReplacement);
      seen[picked.tokens] += rng.weight();
    });
    double total = 0;
    for (const auto& [tokens, probability] : seen) {
      double expected = 1;
      double left = 1;
      for (const fd::TokenId token : tokens) {
        expected *= q[fd::idx(token)] / left;
        left -= q[fd::idx(token)];
      }
      CHECK(Tokens(tokens).size() == std::set<fd::TokenId>(tokens.begin(), tokens.end()).size());
      CHECK(std::abs(probability - expected) <= 1e-12);
      total += probability;
    }
    CHECK(std::abs(total - 1) <= 1e-12);
  }
}

TEST_CASE("how many siblings there are is decided by q, not by the draws") {
  const fd::SamplingOptions two{.temperature = 1.0f, .top_k = 2};
  for (const auto how : {fd::DraftSampling::kDrawn, fd::DraftSampling::kCoupled}) {
    for (int count = 1; count < 5; ++count) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        fd::Philox rng(seed);
        const Picked picked(rng, two, how, fd::Siblings::kWithoutReplacement, count);
        CHECK(picked.tokens.size() == fd::idx(std::min(count, 2)));
      }
    }
  }
  const std::vector<float> one_possible{-INFINITY, 0.5f, -INFINITY};
  fd::Philox rng;
  for (const auto how :
       {fd::DraftSampling::kDrawn, fd::DraftSampling::kCoupled, fd::DraftSampling::kArgmax}) {
    const Picked picked(rng, kLaws[0], how, fd::Siblings::kWithoutReplacement, 3, one_possible);
    CHECK(picked.tokens == Tokens{1});
  }
  const Picked repeated(rng, kLaws[0], fd::DraftSampling::kDrawn, fd::Siblings::kIndependent, 3,
                        one_possible);
  CHECK(repeated.tokens == Tokens{1, 1, 1});
}

TEST_CASE("coupled siblings come in the order of the target's own noise") {
  for (const fd::SamplingOptions& law : kLaws) {
    const std::vector<double> q = q_of(law);
    for (unsigned seed = 0; seed < 100; ++seed) {
      fd::Philox rng(seed);
      const Picked picked(rng, law, fd::DraftSampling::kCoupled, fd::Siblings::kIndependent, 2);
      CHECK(picked.draft.siblings(1) == fd::Siblings::kPointMass);
      // The tokens follow node 1, which stands behind the anchor: two positions after it.
      const fd::RngKey key{fd::Purpose::kTargetSample, static_cast<fd::Position>(kText.size()) + 1,
                           0};
      const auto wins = [&](fd::TokenId a, fd::TokenId b) {
        const Tokens ids{a, b};
        const std::vector<double> weights{q[fd::idx(a)], q[fd::idx(b)]};
        return rng.categorical(key, ids, weights) == 0;
      };
      REQUIRE(picked.tokens.size() == 2);
      CHECK(wins(picked.tokens[0], picked.tokens[1]));
      for (fd::TokenId other = 0; other < 5; ++other) {
        if (other == picked.tokens[0] || other == picked.tokens[1]) continue;
        CHECK(wins(picked.tokens[1], other));
      }
    }
  }
}

TEST_CASE("the best tokens come best first, ties to the lower id, after the penalties") {
  fd::Philox rng;
  for (int count = 1; count <= 5; ++count) {
    for (const fd::SamplingOptions& law :
         {fd::SamplingOptions{}, fd::SamplingOptions{.temperature = 0.7f, .top_k = 1}}) {
      const Picked picked(rng, law, fd::DraftSampling::kArgmax, fd::Siblings::kIndependent, count);
      const Tokens order{1, 4, 3, 0, 2};
      CHECK(picked.tokens == Tokens(order.begin(), order.begin() + count));
      CHECK(picked.draft.siblings(1) == fd::Siblings::kPointMass);
    }
  }
  // 1 occurs twice in the text, 3 is the drafted token before.
  const fd::SamplingOptions frequency{.frequency_penalty = 0.25f};
  const Picked picked(rng, frequency, fd::DraftSampling::kArgmax, fd::Siblings::kIndependent, 5);
  CHECK(picked.tokens == Tokens{4, 3, 1, 0, 2});
  const Picked best(rng, frequency, fd::DraftSampling::kArgmax, fd::Siblings::kIndependent, 1);
  CHECK(best.tokens == Tokens{4});
}

TEST_CASE("padding that only the draft model's vocabulary has is never picked") {
  const std::vector<float> padded{0.3f, 1.1f, -0.4f, 0.9f, 1.1f, 9.0f, 9.0f};
  const fd::SamplingOptions law{.temperature = 1.0f};
  for (const auto how :
       {fd::DraftSampling::kArgmax, fd::DraftSampling::kCoupled, fd::DraftSampling::kDrawn}) {
    for (const int count : {1, 3}) {
      CAPTURE(static_cast<int>(how), count);
      fd::Philox rng(1);
      const fd::Context context{kText, {}, law, true, &rng, 5};
      fd::DraftTree draft;
      draft.reset(kText.back());
      fd::SiblingPicker picker;
      picker.begin(context, law, how, fd::Siblings::kWithoutReplacement, 7);
      fd::Scores scores;
      scores.reset(picker.want(count), 1, 7);
      scores.set_row(0, padded);
      picker.add(0, count, scores, 0, draft);
      CHECK(draft.drafted() == count);
      for (fd::NodeIndex node = 1; node < draft.size(); ++node) CHECK(draft.token(node) < 5);
    }
  }
}

TEST_CASE("the whole row is asked for only where it is read") {
  fd::Philox rng;
  const fd::Context context{kText, {}, {}, false, &rng};
  const auto need = [&](const fd::SamplingOptions& law, fd::DraftSampling how, int count) {
    fd::SiblingPicker picker;
    picker.begin(context, law, how);
    return picker.want(count).rows;
  };
  CHECK(need({}, fd::DraftSampling::kArgmax, 1) == fd::RowNeed::kArgmax);
  CHECK(need({}, fd::DraftSampling::kArgmax, 2) == fd::RowNeed::kLogits);
  CHECK(need({.presence_penalty = 1.0f}, fd::DraftSampling::kArgmax, 1) == fd::RowNeed::kLogits);
  CHECK(need(kLaws[0], fd::DraftSampling::kDrawn, 1) == fd::RowNeed::kLogits);
  CHECK(need(kLaws[0], fd::DraftSampling::kCoupled, 1) == fd::RowNeed::kLogits);
  const fd::SamplingOptions top_p{.temperature = 0.7f, .top_p = 0.9f};
  CHECK(need(top_p, fd::DraftSampling::kDrawn, 2) == fd::RowNeed::kSums);
  CHECK(need(top_p, fd::DraftSampling::kArgmax, 2) == fd::RowNeed::kLogits);
  fd::SiblingPicker picker;
  picker.begin(context, top_p, fd::DraftSampling::kDrawn);
  CHECK(picker.want(1).temperature == 0.7f);  // that of the sums
}

TEST_CASE("a damaged row of the draft model is an error, not a token") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  fd::Philox rng;
  for (const std::vector<float>& row :
       {std::vector<float>{0.0f, nan, 1.0f}, std::vector<float>{-INFINITY, -INFINITY}}) {
    for (const auto how :
         {fd::DraftSampling::kDrawn, fd::DraftSampling::kCoupled, fd::DraftSampling::kArgmax}) {
      for (const int count : {1, 2}) {
        CHECK_THROWS_WITH(Picked(rng, kLaws[0], how, fd::Siblings::kIndependent, count, row),
                          Catch::Matchers::StartsWith("[invalid-logits] found the draft model: "));
      }
    }
  }
}
