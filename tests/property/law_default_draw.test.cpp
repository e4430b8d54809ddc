// The law of the draw that is made by default: a temperature and nothing cut off. It races runs of
// Scores::kRun tokens, works out few of their weights, and takes what the target hands over of
// runs. Enumeration reaches some tokens of one run; here are G-tests over 24 runs, with a stated
// rate of false alarms.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>

#include "property/mutants.hpp"
#include "support/catch.hpp"
#include "support/chi_square.hpp"
#include "support/runs.hpp"

namespace fd = foredraft;
using fd::Siblings;

namespace {

constexpr int kVocab = 3000;  // the last run has 56 tokens
constexpr int kContexts = 3;  // the row after a token is that of its remainder
constexpr int kDepth = 2;
constexpr int kLength = kDepth + 1;  // of a text
constexpr float kTemperature = 0.8f;

int context_after(fd::TokenId token) { return token % kContexts; }

/// Runs of every kind, and some likely tokens: half of these in one run, from its first token to
/// its last, so that a third of the probability is there. It is the first run, one in the middle,
/// or the last.
std::vector<float> logits_of(int context) {
  std::mt19937 random(static_cast<unsigned>(context));
  const auto uniform = [&] { return static_cast<float>(random()) * 0x1p-32f; };
  const int run_length = static_cast<int>(fd::Scores::kRun);
  std::vector<float> logits;
  for (int id = 0; id < kVocab; ++id) {
    switch ((id / run_length + 2 * context) % 5) {
      case 0: logits.push_back(-4.6f - 0.1f * uniform()); break;   // as heavy as can be
      case 1: logits.push_back(-2.5f - 12.0f * uniform()); break;  // a few tokens have it all
      case 2: logits.push_back(-6.0f - 3.0f * uniform()); break;
      case 3: logits.push_back(-std::numeric_limits<float>::infinity()); break;
      case 4: logits.push_back(-2000.0f - uniform()); break;  // weights that are 0 as doubles
    }
  }
  const int heavy[kContexts] = {0, 12, kVocab / run_length};
  const int begin = heavy[context] * run_length;
  const int last = std::min(run_length, kVocab - begin) - 1;
  for (int i = 0; i < 8; ++i) {
    const int within = begin + i / 2 * last / 3;
    const int anywhere = static_cast<int>(random() % kVocab);
    logits[fd::idx(i % 2 == 0 ? within : anywhere)] = 0.5f - 0.25f * static_cast<float>(i);
  }
  return logits;
}

/// What is known of the token after each context.
struct Truth {
  Truth() {
    for (int context = 0; context < kContexts; ++context) {
      logits.push_back(logits_of(context));
      const std::vector<float>& row = logits.back();
      p.push_back(law::p_of(row, {.temperature = kTemperature}));
      auto& ids = likeliest.emplace_back(kVocab);
      std::iota(ids.begin(), ids.end(), 0);
      std::ranges::stable_sort(ids, std::greater<>(),
                               [&](fd::TokenId id) { return row[fd::idx(id)]; });
      // q is steeper than p, lacks tokens that p has, and has some that p hardly has or lacks.
      std::vector<float> other = row;
      for (std::size_t i = 0; i < other.size(); ++i) {
        if (i % 4 == 1) other[i] = -std::numeric_limits<float>::infinity();
        if (i % 128 == 64) other[i] = -0.5f;
      }
      q.push_back(law::sparse(law::p_of(other, {.temperature = 0.2f})));
      unwarped.push_back(law::sparse(law::p_of(other, {.temperature = 1.0f})));
      next.emplace_back(p.back().begin(), p.back().end());
    }
  }

  std::vector<std::vector<float>> logits;           // [kContexts, kVocab]
  std::vector<std::vector<double>> p;               // [kContexts, kVocab]
  std::vector<std::vector<fd::TokenId>> likeliest;  // [kContexts, kVocab], likeliest first
  std::vector<fd::Law> q;                           // [kContexts]
  std::vector<fd::Law> unwarped;  // [kContexts] mutant: what q is before its temperature
  std::vector<std::discrete_distribution<int>> next;  // of p
};
const Truth& truth() {
  static const Truth truth;
  return truth;
}

/// How often tokens are expected at a place of `n` texts, and were seen.
class Cells {
 public:
  /// @param whole_runs  a cell holds a run: what goes wrong between runs shows there first. Else it
  /// holds a token, or neighbours that are too rare for cells of their own
  Cells(const std::vector<double>& reached, int n, bool whole_runs) {
    for (int context = 0; context < kContexts; ++context) {
      bool open = false;
      for (int id = 0; id < kVocab; ++id) {
        const double expected =
            n * reached[fd::idx(context)] * truth().p[fd::idx(context)][fd::idx(id)];
        const bool begins =
            whole_runs ? fd::idx(id) % fd::Scores::kRun == 0 : !open || expected >= kLeast;
        if (begins) expected_.push_back(0);
        expected_.back() += expected;
        open = expected < kLeast && expected_.back() < kLeast;
        cell_of_.push_back(expected_.size() - 1);
      }
    }
    seen_.resize(expected_.size());
  }

  void count(int context, fd::TokenId token) {
    ++seen_[cell_of_[fd::idx(context * kVocab + token)]];
  }
  double p_value() const { return statistics::g_test(seen_, expected_); }

 private:
  // Far out, where one in a million lies, the law of G is chi-square only above the usual 5.
  static constexpr double kLeast = 20;
  std::vector<std::size_t> cell_of_;  // [kContexts, kVocab]
  std::vector<double> expected_;
  std::vector<double> seen_;
};

/// How a draft is made, all nodes of a depth alike.
struct Drafts {
  enum class Source {
    kFound,    // the likeliest tokens, as point mass
    kDrawn,    // drawn, with their q
    kCoupled,  // drawn with the numbers that sample the target, as point mass
  } source = Source::kFound;
  std::array<int, kDepth> branching{1, 1};
  Siblings made = Siblings::kIndependent;
  bool said_unwarped = false;  // mutant: another law than that of the draws is handed over
};

using Source = Drafts::Source;

/// @param contexts of the nodes; that of the anchor is given
void propose(const Drafts& how, fd::Position anchor, fd::Rng& rng, fd::DraftTree& draft,
             std::array<int, fd::DraftTree::kMaxNodes>& contexts) {
  draft.reset(0);
  std::vector<double> weights;
  for (fd::NodeIndex node = 0; draft.depth(node) < kDepth; ++node) {  // nodes come level by level
    const int context = contexts[fd::idx(node)];
    const int children = how.branching[fd::idx(draft.depth(node))];
    const fd::Law& q = truth().q[fd::idx(context)];
    weights = q.p;
    if (how.source == Source::kDrawn)
      draft.drawn_from(node, how.made) = how.said_unwarped ? truth().unwarped[fd::idx(context)] : q;
    for (int i = 0; i < children; ++i) {
      fd::TokenId token = truth().likeliest[fd::idx(context)][fd::idx(i)];
      if (how.source != Source::kFound) {
        const fd::RngKey key =
            how.source == Source::kCoupled
                ? fd::RngKey{fd::Purpose::kTargetSample, anchor + draft.depth(node) + 1, 0}
                : fd::RngKey{fd::Purpose::kDraft, anchor, draft.size()};
        const std::size_t chosen = rng.categorical(key, q.ids, weights);
        if (how.made == Siblings::kWithoutReplacement) weights[chosen] = 0.0;
        token = q.ids[chosen];
      }
      contexts[fd::idx(draft.add(node, token))] = context_after(token);
    }
  }
}

/// A target that hands over as much as it is told to.
struct Target {
  enum class Hands {
    kNothing,
    kMaxima,
    kSums
  } hands = Hands::kNothing;
  float lower = 0;  // mutant: maxima are too small by this
  int lost = -1;    // mutant: the sum of this run is that of none of its tokens

  void fill(fd::Scores& scores, int row, int context) const {
    const std::vector<float>& logits = truth().logits[fd::idx(context)];
    // set_row() would look for the best token each time.
    std::ranges::copy(logits, scores.logits(row).begin());
    scores.argmax()[fd::idx(row)] = truth().likeliest[fd::idx(context)][0];
    if (hands == Hands::kNothing) return;
    static const std::vector<RunsOf> known = [] {
      std::vector<RunsOf> runs;
      for (const auto& of : truth().logits) runs.emplace_back(of, kTemperature);
      return runs;
    }();
    const fd::Runs runs = known[fd::idx(context)].all();
    const auto maxima = scores.hand_over_maxima(row);
    std::ranges::copy(runs.maxima, maxima.begin());
    for (float& maximum : maxima) maximum -= lower;
    if (hands != Hands::kSums) return;
    const auto sums = scores.hand_over_sums(row);
    if (sums.empty()) return;  // nobody wants them
    std::ranges::copy(runs.sums, sums.begin());
    if (lost >= 0) sums[fd::idx(lost)] = 0;
  }
};

struct Outcome {
  double p_value = 1;   // the smallest of those of all places of a text
  double accepted = 0;  // drafts a round
};

/// Rounds of `rule`, each the beginning of a text of kLength tokens. How long a round is depends on
/// its tokens, so every text is drawn to its end, without the library.
template <typename A>
Outcome test_law(const A& rule, const Drafts& drafts, const Target& target, int n,
                 std::uint64_t seed) {
  std::vector<std::array<Cells, 2>> places;
  std::vector<double> reached(kContexts, 1.0 / kContexts);
  for (int i = 0; i < kLength; ++i) {
    places.push_back({Cells(reached, n, false), Cells(reached, n, true)});
    std::vector<double> next(kContexts);
    for (int context = 0; context < kContexts; ++context) {
      for (fd::TokenId id = 0; id < kVocab; ++id)
        next[fd::idx(context_after(id))] +=
            reached[fd::idx(context)] * truth().p[fd::idx(context)][fd::idx(id)];
    }
    reached = next;
  }

  const fd::SamplingOptions sampling{.temperature = kTemperature};
  const std::vector<fd::TokenId> tokens(12);  // the text before, whose last token is the anchor
  const auto anchor = static_cast<fd::Position>(tokens.size()) - 1;
  fd::DraftTree draft;
  std::array<int, fd::DraftTree::kMaxNodes> contexts{};
  fd::Scores scores;
  fd::RowSampler sampler;
  auto next = truth().next;
  std::mt19937_64 rest(seed);
  Outcome outcome;
  for (int text = 0; text < n; ++text) {
    fd::Philox rng(seed, static_cast<std::uint32_t>(text));
    contexts[0] = text % kContexts;
    propose(drafts, anchor, rng, draft, contexts);
    scores.reset({rule.needs(sampling), {}, kTemperature}, draft.size(), kVocab);
    for (fd::NodeIndex node = 0; node < draft.size(); ++node)
      target.fill(scores, node, contexts[fd::idx(node)]);
    sampler.begin(sampling, scores, draft, tokens);
    const fd::Verdict verdict = rule.verify(draft, sampler, rng);
    outcome.accepted += verdict.accepted();
    int context = contexts[0];
    for (int i = 0; i < kLength; ++i) {
      fd::TokenId token = verdict.last;
      if (i < verdict.accepted()) token = draft.token(verdict.path[fd::idx(i) + 1]);
      if (i > verdict.accepted()) token = next[fd::idx(context)](rest);
      for (Cells& cells : places[fd::idx(i)]) cells.count(context, token);
      context = context_after(token);
    }
  }
  outcome.accepted /= n;
  for (const auto& place : places) {
    for (const Cells& cells : place) outcome.p_value = std::min(outcome.p_value, cells.p_value());
  }
  return outcome;
}

using Hands = Target::Hands;
constexpr Hands kHands[] = {Hands::kNothing, Hands::kMaxima, Hands::kSums};

// Rounds; rules that make whole rows of p take longer for each.
constexpr int kMany = 6000;
constexpr int kFewer = 2500;

// One chance in a million that any of all these tests fails without a reason, shared out equally.
constexpr int kTests = 3 * 10 * 2 * kLength;
constexpr double kFalseAlarm = 1e-6 / kTests;

const Drafts kFound{};
const Drafts kDrawn{.source = Source::kDrawn};
const Drafts kCoupled{.source = Source::kCoupled};

template <typename A>
void check_law(const std::string& name, const A& rule, const Drafts& drafts, int n) {
  std::uint64_t seed = 1;
  for (const Hands hands : kHands) {
    CAPTURE(name, static_cast<int>(hands));
    const Outcome outcome = test_law(rule, drafts, {hands}, n, seed++);
    CAPTURE(outcome.accepted);
    CHECK(outcome.p_value > kFalseAlarm);
    CHECK(outcome.accepted > 0.05);  // else little of the rule was tried
  }
}

template <typename A>
void check_refuted(const std::string& name, const A& rule, const Drafts& drafts,
                   const Target& target, int n) {
  CAPTURE(name);
  CHECK(test_law(rule, drafts, target, n, 1).p_value < kFalseAlarm);
}

}  // namespace

TEST_CASE("match keeps the law over many runs, one false alarm in a million with the tests below") {
  check_law("found", fd::SampleAndMatch{}, kFound, kMany);
  check_law("drawn", fd::SampleAndMatch{}, kDrawn, kMany);
  check_law("coupled", fd::SampleAndMatch{}, kCoupled, kMany);
}

TEST_CASE("rejection keeps the law over many runs, on chains") {
  check_law("found", fd::RejectionSampling{}, kFound, kMany);
  check_law("drawn", fd::RejectionSampling{}, kDrawn, kMany);
}

TEST_CASE("rejection keeps the law over many runs, on trees") {
  check_law("found siblings", fd::RejectionSampling{}, {.branching = {3, 2}}, kFewer);
  check_law("independent siblings", fd::RejectionSampling{},
            {.source = Source::kDrawn, .branching = {2, 2}}, kFewer);
  check_law("siblings without replacement", fd::RejectionSampling{},
            {.source = Source::kDrawn, .branching = {3, 1}, .made = Siblings::kWithoutReplacement},
            kFewer);
}

TEST_CASE("block verification keeps the law over many runs") {
  check_law("found", fd::BlockVerification{}, kFound, kFewer);
  check_law("drawn", fd::BlockVerification{}, kDrawn, kFewer);
}

TEST_CASE("tests of this size see mistakes in what a target hands over, and in rules") {
  const fd::SampleAndMatch match;
  const fd::RejectionSampling rejection;
  // With maxima too small the bound of a flat run is less than its weight.
  const Target low{.hands = Hands::kMaxima, .lower = 1.0f};
  check_refuted("match, maxima too small", match, kFound, low, kMany);
  check_refuted("rejection, maxima too small", rejection, kFound, low, kMany);
  const Target forgetful{.hands = Hands::kSums, .lost = 1};
  check_refuted("rejection, the sum of a run lost", rejection, kFound, forgetful, kMany);
  check_refuted("the same, drawn", rejection, kDrawn, forgetful, kMany);

  const Drafts unwarped{.source = Source::kDrawn, .said_unwarped = true};
  check_refuted("q before its temperature", rejection, unwarped, {}, kMany);
  check_refuted("the same under block verification", fd::BlockVerification{}, unwarped, {}, kMany);
  const auto not_subtracted =
      mutants::rejection({.residual = mutants::Rejection::Residual::kNotSubtracted});
  check_refuted("nothing subtracted after a rejection", not_subtracted, kDrawn, {}, kFewer);
}
