#include <foredraft/core/constraint_path.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/drafter/sibling_picker.hpp>
#include <foredraft/testing/drafts.hpp>

#include "support/catch.hpp"
#include "support/exact_law.hpp"
#include "support/function_policies.hpp"
#include "support/path_constraint.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
constexpr float kNever = -std::numeric_limits<float>::infinity();

fd::ConstraintPath path_of(const PathConstraint& constraint, Tokens ends = {}) {
  return {constraint, std::make_shared<const Tokens>(std::move(ends))};
}

const Tokens kPrompt{0, 1};

/// Logits of the target in which what the constraint forbids is impossible, by definition.
std::vector<float> constrained_logits(const toy::Target& target, const Tokens& text) {
  std::vector<float> logits = target.logits_after(text);
  const Tokens answer(text.begin() + static_cast<std::ptrdiff_t>(kPrompt.size()), text.end());
  for (int token = 0; token < target.vocab_size(); ++token) {
    if (arbitrarily_allowed(target.vocab_size(), answer, token)) continue;
    logits[fd::idx(token)] = kNever;
  }
  return logits;
}

law::JointLaw constrained_law(const toy::Target& target, const Tokens& prefix,
                              const fd::SamplingOptions& sampling, int n) {
  law::JointLaw joint{{{}, 1.0}};
  for (int i = 0; i < n; ++i) {
    law::JointLaw longer;
    for (const auto& [tokens, probability] : joint) {
      Tokens text = prefix;
      text.insert(text.end(), tokens.begin(), tokens.end());
      const auto p = law::p_of(constrained_logits(target, text), sampling, text);
      for (std::size_t id = 0; id < p.size(); ++id) {
        if (p[id] == 0) continue;
        Tokens next = tokens;
        next.push_back(static_cast<fd::TokenId>(id));
        longer[next] = probability * p[id];
      }
    }
    joint = std::move(longer);
  }
  return joint;
}

/// What a draft model does: children from rows of another target, forbidden tokens left out of q.
law::NamedDrafter<fd::Shape::kTree> picked(int n_vocab, fd::DraftSampling how, int count) {
  const toy::Target other(n_vocab, 2, 2.0, 77);
  return {"picked from another model's rows",
          {[=](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
            fd::SiblingPicker picker;
            picker.begin(context, context.sampling, how, fd::Siblings::kWithoutReplacement,
                         n_vocab);
            for (fd::NodeIndex node = 0; node < draft.size(); ++node) {
              if (draft.depth(node) == limit.depth) continue;
              if (draft.drafted() + count > limit.nodes) return;
              fd::Scores scores;
              scores.reset(picker.want(count), 1, n_vocab);
              scores.set_row(0, other.logits_after(law::text_at(context, draft, node)));
              picker.add(node, count, scores, 0, draft);
            }
          }}};
}

template <typename A>
double worst_distance(const A& rule, const fd::SamplingOptions& sampling, int n_vocab, int depth,
                      std::string& where) {
  toy::Target target(n_vocab, 0, 1.5, 5);
  constexpr auto kTree = fd::Shape::kTree;
  auto drafters = law::chains_for<kTree>(target, sampling);
  drafters.push_back(picked(n_vocab, fd::DraftSampling::kDrawn, 1));
  drafters.push_back(picked(n_vocab, fd::DraftSampling::kArgmax, 1));
  if (A::shape == kTree && depth > 0) {
    for (const auto& draft : law::trees_for(target, sampling)) drafters.push_back(draft);
    drafters.push_back(picked(n_vocab, fd::DraftSampling::kDrawn, 2));
  }
  double worst = 0;
  for (const auto& draft : drafters) {
    fd::Options options{.max_tokens = 1, .sampling = sampling};
    options.constraint = arbitrary_constraint(n_vocab);
    fd::Decoder decoder{target, toy::TokenCache{32, 16}, draft.drafter, TreeRule::of(rule)};
    decoder.generate(kPrompt, options);
    const Tokens prefix(decoder.tokens().begin(), decoder.tokens().end());
    const int n = 2 * (depth + 1);
    options.n_draft = depth;
    const double distance = law::total_variation(law::law_by_rounds(decoder, options, n),
                                                 constrained_law(target, prefix, sampling, n));
    if (distance > worst) worst = distance, where = draft.name;
  }
  return worst;
}

const std::vector<fd::SamplingOptions> kTransforms{
    {.temperature = 0.0f},
    {.temperature = 1.0f},
    {.temperature = 1.0f, .top_k = 2},
    {.temperature = 1.0f, .top_p = 0.7f},
    {.temperature = 1.5f, .min_p = 0.3f},
    {.temperature = 0.8f, .repeat_penalty = 1.3f, .presence_penalty = 0.5f, .penalty_last_n = 3},
};

template <typename A>
void check_law(const A& rule) {
  for (const fd::SamplingOptions& sampling : kTransforms) {
    for (const auto& [n_vocab, depth] : {std::pair{2, 2}, std::pair{3, 1}, std::pair{4, 1}}) {
      std::string where;
      const double distance = worst_distance(rule, sampling, n_vocab, depth, where);
      INFO(where << ", temperature " << sampling.temperature << ", top_k " << sampling.top_k << ", "
                 << n_vocab << " tokens");
      CHECK(distance <= 1e-12);
    }
  }
}

}  // namespace

TEST_CASE("a path says what may follow, and a copy looks ahead") {
  const auto alternating = [](const Tokens& text, fd::TokenId token) {
    return text.empty() || text.back() != token;
  };
  fd::ConstraintPath path = path_of({3, alternating});
  CHECK(path.allows(1));
  path.step(1);
  fd::ConstraintPath ahead = path;
  CHECK(ahead.step(1).dead());
  CHECK(ahead.step(2).dead());  // what is behind a forbidden token is forbidden
  CHECK_FALSE(path.dead());
  CHECK(path.allows(2));
  std::vector<float> row;
  CHECK(path.forbid(std::vector<float>{1, 2, 3}, row));
  CHECK(row == std::vector<float>{1, kNever, 3});
  CHECK_FALSE(path.forbid(std::vector<float>{kNever, 2, kNever}, row));
  CHECK(path.forbid(std::vector<float>{4, 2}, row));  // of a draft model that knows fewer tokens
  CHECK(row == std::vector<float>{4, kNever});
}

TEST_CASE(
    "hazard 29: an end token is legal where the constraint may end, and nothing is asked behind "
    "it") {
  const PathConstraint two{4, [](const Tokens& text, fd::TokenId) { return text.size() < 3; },
                           [](const Tokens& text) { return text.size() >= 2; }};
  fd::ConstraintPath path = path_of(two, {3});
  CHECK_FALSE(path.allows(3));  // though the constraint itself would take it as a token
  path.step(0).step(1);
  CHECK(path.allows(3));
  CHECK_FALSE(path.over());
  CHECK(fd::ConstraintPath(path).step(3).over());
  CHECK(fd::ConstraintPath(path).step(3).step(0).dead());
  CHECK_FALSE(fd::ConstraintPath(path).step(3).step(0).over());
  CHECK(path.step(2).over());  // finished: nothing else is possible
}

TEST_CASE("found tokens are cut at the first forbidden one, drawn ones stay") {
  const auto below_two = [](const Tokens&, fd::TokenId token) { return token < 2; };
  const fd::ConstraintPath path = path_of({4, below_two});
  fd::DraftTree draft;
  draft.reset(9);
  const auto a = draft.add(0, 3);  // forbidden
  draft.add(a, 1);                 // behind it
  const auto b = draft.add(0, 1);
  draft.drawn_from(b) = {{1, 2}, {0.5, 0.5}};
  const auto c = draft.add(b, 2);  // forbidden, but drawn
  draft.set_origin(c, 7);
  draft.set_confidence(c, 0.25f);
  draft.drawn_from(c, fd::Siblings::kWithoutReplacement) = {{0}, {1.0}};
  draft.add(c, 0);
  draft.add(b, 1);
  fd::drop_forbidden(path, draft);
  REQUIRE(draft.size() == 5);
  CHECK(draft.token(0) == 9);
  CHECK(draft.token(1) == 1);
  CHECK(draft.law(1).ids == Tokens{1, 2});
  CHECK(draft.token(2) == 2);
  CHECK(draft.parent(2) == 1);
  CHECK(draft.origin(2) == 7);
  CHECK(draft.confidence(2) == 0.25f);
  CHECK(draft.siblings(2) == fd::Siblings::kWithoutReplacement);
  CHECK(draft.law(2).ids == Tokens{0});
  CHECK(draft.parent(3) == 2);
  CHECK(draft.parent(4) == 1);
  CHECK(draft.depth(4) == 2);
}

TEST_CASE("under a constraint the law is p of the constrained rows: rejection") {
  check_law(fd::RejectionSampling{});
}
TEST_CASE("under a constraint the law is p of the constrained rows: match") {
  check_law(fd::SampleAndMatch{});
}
TEST_CASE("under a constraint the law is p of the constrained rows: block") {
  check_law(fd::BlockVerification{});
}
