// The law on a real model: G-tests of what each acceptance rule and form of draft makes of the
// logits of smollm2-135m, a million verifications each.

#include <foredraft/models.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "property/mutants.hpp"
#include "support/catch.hpp"
#include "support/chi_square.hpp"
#include "support/forward.hpp"
#include "support/models.hpp"

namespace fd = foredraft;
using fd::SamplingOptions;
using fd::Siblings;

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;

// A context is the prompt and up to kDepth tokens, each one of the kRanks likeliest. All of them
// are the nodes of a complete tree, level by level, and numbered that way.
constexpr int kRanks = 8;
constexpr int kDepth = 3;
constexpr int kContexts = 1 + 8 + 64 + 512;
constexpr int kTexts = 4096;  // of kDepth + 1 tokens, numbered behind the contexts
constexpr int kRuns = 1'000'000;

constexpr int child(int context, int rank) { return context * kRanks + 1 + rank; }
static_assert(child(kContexts - 1, kRanks - 1) == kContexts + kTexts - 1);

/// The kRanks likeliest tokens of a row, the likeliest first, ties to the lower id.
std::vector<fd::TokenId> likeliest(const std::vector<float>& row) {
  std::vector<fd::TokenId> ids(row.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<fd::TokenId>(i);
  std::partial_sort(ids.begin(), ids.begin() + kRanks, ids.end(), [&](auto a, auto b) {
    return row[fd::idx(a)] != row[fd::idx(b)] ? row[fd::idx(a)] > row[fd::idx(b)] : a < b;
  });
  ids.resize(kRanks);
  return ids;
}

/// The logits of every context in the vocabulary of ranks: token r of a row stands for the r-th
/// likeliest there. With top-k of at most kRanks, p lives on these tokens alone, and giving them
/// other names in each context changes no law; but a verification takes a microsecond, not a
/// millisecond.
/// @shape result [kContexts, kRanks]
std::vector<std::vector<float>> rows_of_contexts(Model& model,
                                                 const std::vector<fd::TokenId>& prompt) {
  Cache cache{model.shape(), static_cast<int>(prompt.size()) + kDepth, kContexts};
  const auto before = fd::chain_of(prompt, 0, static_cast<int>(prompt.size()) - 1);
  cache.stage(before);
  forward_rows(model, cache, 0, static_cast<int>(before.size()));
  cache.commit(fd::first_nodes(static_cast<int>(before.size())));

  std::vector<std::vector<float>> rows;
  std::vector<fd::Node> level{{prompt.back(), fd::kCommitted}};
  double moved = 0;  // by the change of names
  for (int depth = 0; depth <= kDepth; ++depth) {
    const int begin = static_cast<int>(rows.size());
    const int end = begin + static_cast<int>(level.size());
    cache.stage(level);
    level.clear();
    for (int first = begin; first < end; first += fd::DraftTree::kMaxNodes) {
      const int count = std::min(end - first, fd::DraftTree::kMaxNodes);
      for (const auto& row : forward_rows(model, cache, first, count)) {
        const int context = static_cast<int>(rows.size());
        const auto ids = likeliest(row);
        rows.emplace_back();
        for (const fd::TokenId id : ids) {
          rows.back().push_back(row[fd::idx(id)]);
          level.push_back({id, context});
        }
        fd::Transforms transforms;
        fd::Law full, ranked;
        const SamplingOptions cut{.temperature = 0.8f, .top_k = 4 + context % 5};
        transforms.apply(cut, row, {}, full);
        transforms.apply(cut, rows.back(), {}, ranked);
        for (int rank = 0; rank < kRanks; ++rank)
          moved = std::max(moved, std::abs(full(ids[fd::idx(rank)]) - ranked(rank)));
      }
    }
  }
  CHECK(moved < 1e-12);
  return rows;
}

/// How a draft is made, all nodes of a depth alike.
struct Drafts {
  enum class Source {
    kFound,      // tokens that depend on the context, as point mass
    kUnrelated,  // drawn, but handed over as point mass
    kCoupled,    // the same with the noise that samples the target
    kDrawn       // drawn, with their q
  } source = Source::kFound;
  std::array<int, kDepth> branching{1, 1, 1};
  std::vector<fd::Law> q = {};  // [kContexts]
  Siblings made = Siblings::kIndependent;
  std::vector<fd::Law> said = {};          // mutant: what is handed over as q; empty: q
  std::optional<Siblings> said_made = {};  // mutant: how siblings are said to be made
};
using Source = Drafts::Source;

/// @param contexts of the nodes
void propose(const Drafts& how, fd::Position anchor, fd::Rng& rng, fd::DraftTree& draft,
             std::array<int, fd::DraftTree::kMaxNodes>& contexts) {
  draft.reset(0);
  contexts[0] = 0;
  std::vector<double> weights;
  for (fd::NodeIndex node = 0; draft.depth(node) < kDepth; ++node) {  // nodes come level by level
    const int context = contexts[fd::idx(node)];
    const auto add = [&](fd::TokenId rank) {
      contexts[fd::idx(draft.add(node, rank))] = child(context, rank);
    };
    const int children = how.branching[fd::idx(draft.depth(node))];
    if (how.source == Source::kFound) {
      for (int i = 0; i < children; ++i) add((context % 2 + i) % kRanks);
      continue;
    }
    const fd::Law& q = how.q[fd::idx(context)];
    if (how.source == Source::kDrawn) {
      draft.drawn_from(node, how.said_made.value_or(how.made)) =
          how.said.empty() ? q : how.said[fd::idx(context)];
    }
    weights = q.p;
    for (int i = 0; i < children; ++i) {
      const fd::RngKey key =
          how.source == Source::kCoupled
              ? fd::RngKey{fd::Purpose::kTargetSample, anchor + draft.depth(node) + 1, 0}
              : fd::RngKey{fd::Purpose::kDraft, anchor, draft.size()};
      const std::size_t chosen = rng.categorical(key, q.ids, weights);
      add(q.ids[chosen]);
      if (how.made == Siblings::kWithoutReplacement) weights[chosen] = 0.0;
    }
  }
}

/// Philox for ids that lie apart, as those of the real tokens do: its first race, between blocks of
/// ids, would otherwise have one runner.
class SpreadPhilox final : public fd::Rng {
 public:
  SpreadPhilox(std::uint64_t seed, std::uint32_t sequence) : philox_(seed, sequence) {}
  bool bernoulli(fd::RngKey key, double probability) override {
    return philox_.bernoulli(key, probability);
  }
  std::size_t categorical(fd::RngKey key, std::span<const fd::TokenId> ids,
                          std::span<const double> weights) override {
    spread_.clear();
    for (const fd::TokenId id : ids) spread_.push_back(40 * id);  // 8 ranks, 3 blocks of 128
    return philox_.categorical(key, spread_, weights);
  }

 private:
  fd::Philox philox_;
  std::vector<fd::TokenId> spread_;
};

/// A test of one rule on one form of draft.
struct Outcome {
  double p_value = 0;
  double accepted = 0;  // drafts a round
};

template <typename A>
Outcome test_law(const std::vector<std::vector<float>>& rows, const SamplingOptions& sampling,
                 const A& rule, const Drafts& drafts, std::uint64_t seed) {
  // The truth, by the definition of each transform: how probable each context and text is.
  std::vector<fd::Law> p;
  std::vector<double> reached(kContexts + kTexts);
  reached[0] = 1;
  for (int context = 0; context < kContexts; ++context) {
    p.push_back(law::sparse(law::p_of(rows[fd::idx(context)], sampling)));
    for (int rank = 0; rank < kRanks; ++rank)
      reached[fd::idx(child(context, rank))] = reached[fd::idx(context)] * p.back()(rank);
  }
  std::vector<double> wanted(reached.begin() + kContexts, reached.end());
  for (double& cell : wanted) cell *= kRuns;

  std::vector<double> seen(kTexts);
  double accepted = 0;
  const std::vector<fd::TokenId> tokens(12);  // the text before, whose last token is the anchor
  const auto anchor = static_cast<fd::Position>(tokens.size()) - 1;
  fd::DraftTree draft;
  std::array<int, fd::DraftTree::kMaxNodes> contexts{};
  fd::Scores scores;
  fd::RowSampler sampler;
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    SpreadPhilox rng(seed, run);
    propose(drafts, anchor, rng, draft, contexts);
    scores.reset({fd::RowNeed::kLogits, {}}, draft.size(), kRanks);
    for (fd::NodeIndex node = 0; node < draft.size(); ++node)
      scores.set_row(node, rows[fd::idx(contexts[fd::idx(node)])]);
    sampler.begin(sampling, scores, draft, tokens);
    const fd::Verdict verdict = rule.verify(draft, sampler, rng);
    accepted += verdict.accepted();
    int text = child(contexts[fd::idx(verdict.end())], verdict.last);
    // Rounds differ in length, and a length is no event of p. So each text is sampled to its end,
    // with keys that no rule uses (their node is 0).
    for (fd::Position position = anchor + verdict.path_size + 1; text < kContexts; ++position) {
      const fd::Law& next = p[fd::idx(text)];
      const fd::RngKey key{fd::Purpose::kTargetSample, position, 1};
      text = child(text, next.ids[rng.categorical(key, next.ids, next.p)]);
    }
    seen[fd::idx(text - kContexts)] += 1;
  }
  return {statistics::g_test(seen, wanted), accepted / kRuns};
}

/// What drafts are drawn from, in every context.
struct DraftLaws {
  std::vector<fd::Law> wide;    // of another shape than p everywhere, on tokens that p is cut from
  std::vector<fd::Law> narrow;  // of three tokens, zero where p has mass
  std::vector<fd::Law> unwarped;
};
DraftLaws draft_laws(const std::vector<std::vector<float>>& rows) {
  DraftLaws laws;
  for (int context = 0; context < kContexts; ++context) {
    auto mixed = law::p_of(rows[fd::idx(context)], {.temperature = 1.7f});
    const auto other =
        law::p_of(rows[fd::idx((context * 37 + 11) % kContexts)], {.temperature = 1.0f});
    for (int rank = 0; rank < kRanks; ++rank)
      mixed[fd::idx(rank)] =
          0.7 * mixed[fd::idx(rank)] + 0.3 * other[fd::idx((rank + context) % kRanks)];
    laws.wide.push_back(law::sparse(mixed));
    laws.narrow.push_back(
        law::sparse(law::p_of(rows[fd::idx(context)], {.temperature = 0.6f, .top_k = 3})));
    laws.unwarped.push_back(law::sparse(law::p_of(rows[fd::idx(context)], {.temperature = 1.0f})));
  }
  return laws;
}

/// Forms of draft that several rules are tried on.
struct Forms {
  DraftLaws laws;
  Drafts found = {};
  Drafts drawn = {.source = Source::kDrawn, .q = laws.wide};
  Drafts drawn_narrow = {.source = Source::kDrawn, .q = laws.narrow};
  Drafts independent = {.source = Source::kDrawn, .branching = {2, 2, 1}, .q = laws.wide};
  Drafts distinct = {.source = Source::kDrawn,
                     .branching = {3, 2, 1},
                     .q = laws.wide,
                     .made = Siblings::kWithoutReplacement};
};

constexpr int kTests = 14;
constexpr double kFalseAlarm = 1e-6 / kTests;

/// Tests on the same rows, each with a seed of its own.
class Tests {
 public:
  explicit Tests(const std::vector<std::vector<float>>& rows) : rows_(rows) {}

  int count() const { return count_; }

  template <typename A>
  void holds(const std::string& name, const SamplingOptions& sampling, const A& rule,
             const Drafts& drafts) {
    const Outcome outcome =
        test_law(rows_, sampling, rule, drafts, static_cast<std::uint64_t>(++count_));
    INFO(name << ", accepted " << outcome.accepted);
    CHECK(outcome.p_value > kFalseAlarm);
    CHECK(outcome.accepted > 0.1);  // else little of the rule was tried
  }

  template <typename A>
  void refuted(const std::string& name, const A& rule, const Drafts& drafts) const {
    INFO(name);
    CHECK(test_law(rows_, {.temperature = 1.0f, .top_k = 8}, rule, drafts, 1).p_value <
          kFalseAlarm);
  }

 private:
  const std::vector<std::vector<float>>& rows_;
  int count_ = 0;
};

void test_match(Tests& tests, const std::vector<fd::Law>& wide) {
  const fd::SampleAndMatch match;
  tests.holds("match, drafts of their own noise", {.temperature = 1.0f, .top_k = 8}, match,
              {.source = Source::kUnrelated, .q = wide});
  tests.holds("match, coupled drafts", {.temperature = 0.8f, .top_k = 6}, match,
              {.source = Source::kCoupled, .q = wide});
  tests.holds("match, a tree", {.temperature = 1.0f, .top_k = 5}, match, {.branching = {3, 2, 1}});
  tests.holds("match, a coupled tree", {.temperature = 1.0f, .top_k = 7}, match,
              {.source = Source::kCoupled,
               .branching = {2, 2, 1},
               .q = wide,
               .made = Siblings::kWithoutReplacement});
}

void test_rejection(Tests& tests, const Forms& forms) {
  const fd::RejectionSampling rejection;
  tests.holds("rejection, coupled drafts", {.temperature = 1.0f, .top_k = 6}, rejection,
              {.source = Source::kCoupled, .q = forms.laws.wide});
  tests.holds("rejection, found", {.temperature = 1.0f, .top_k = 7}, rejection, forms.found);
  tests.holds("rejection, drawn", {.temperature = 1.0f, .top_k = 8}, rejection, forms.drawn);
  tests.holds("rejection, drawn from few", {.temperature = 1.3f, .top_k = 6}, rejection,
              forms.drawn_narrow);
  tests.holds("rejection, found siblings", {.temperature = 1.2f, .top_k = 4}, rejection,
              {.branching = {3, 2, 1}});
  tests.holds("rejection, independent siblings", {.temperature = 1.0f, .top_k = 8}, rejection,
              forms.independent);
  tests.holds("rejection, siblings without replacement", {.temperature = 0.9f, .top_k = 6},
              rejection, forms.distinct);
}

void test_block(Tests& tests, const Forms& forms) {
  const fd::BlockVerification block;
  tests.holds("block, found", {.temperature = 1.0f, .top_k = 6}, block, forms.found);
  tests.holds("block, drawn", {.temperature = 1.0f, .top_k = 8}, block, forms.drawn);
  tests.holds("block, drawn from few", {.temperature = 1.2f, .top_k = 5, .top_p = 0.95f}, block,
              forms.drawn_narrow);
}

/// Tests of this size see mistakes.
void test_mistakes(const Tests& tests, const Forms& forms) {
  tests.refuted("nothing subtracted after a rejection",
                mutants::rejection({.residual = mutants::Rejection::Residual::kNotSubtracted}),
                forms.drawn);
  tests.refuted("block verification that stops at the first failure",
                mutants::block({.stop_at_first_failure = true}), forms.drawn);
  const fd::RejectionSampling rejection;
  Drafts mistaken = forms.drawn_narrow;
  mistaken.said = forms.laws.unwarped;
  tests.refuted("q before its temperature and top-k", rejection, mistaken);
  mistaken = forms.distinct;
  mistaken.q = forms.laws.narrow;
  mistaken.said_made = Siblings::kIndependent;
  tests.refuted("siblings without replacement verified as independent ones", rejection, mistaken);
}

}  // namespace

TEST_CASE("smollm2-135m: what every rule emits has the law p, one false alarm in a million") {
  const auto file = model_file("smollm2-135m");
  if (!file) return;
  fd::Cpu cpu{{.threads = 1}};
  Model model = fd::load(cpu, *file);
  const auto rows =
      rows_of_contexts(model, model.tokenizer().encode("The old woman opened the door and"));
  REQUIRE(rows.size() == kContexts);

  const Forms forms{draft_laws(rows)};
  Tests tests(rows);
  test_match(tests, forms.laws.wide);
  test_rejection(tests, forms);
  test_block(tests, forms);
  CHECK(tests.count() == kTests);
  test_mistakes(tests, forms);
}
