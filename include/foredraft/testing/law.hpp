#pragma once

#include <cmath>
#include <exception>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <foredraft/testing/drafts.hpp>

/// Is an acceptance rule lossless? The answer is computed, not sampled.
namespace foredraft::inline v0::testing {

/// What check_law() found. `worst` describes the case of the greatest distance.
struct LawReport {
  double distance = 0;  ///< greatest total variation between the emitted text and the target's law
  int cases = 0;
  int refused = 0;  ///< cases that the rule's needs() refused: it does not work under such options
  std::string worst;

  /// Counts a case. @return whether it is the worst so far
  bool add(double found) noexcept {
    // A distance that is no number is as bad as can be, and no later case makes up for it.
    if (std::isnan(found)) found = std::numeric_limits<double>::infinity();
    if (cases++ > 0 && found <= distance) return false;
    distance = found;
    return true;
  }

  /// 1e-12 is what rounding may move; the least mistake of a rule is many orders larger.
  bool keeps_the_law() const noexcept { return cases > 0 && distance <= 1e-12; }
};

inline std::ostream& operator<<(std::ostream& out, const LawReport& report) {
  out << (report.keeps_the_law() ? "keeps the law: " : "does NOT keep the law: ") << report.cases
      << " cases, total variation up to " << report.distance;
  if (report.refused > 0) out << "; " << report.refused << " more refused by the rule";
  if (!report.worst.empty()) out << "\n  worst: " << report.worst;
  return out << '\n';
}

/// Options under which rules are checked: each transform alone, and all together.
inline const std::vector<SamplingOptions>& law_transforms() {
  static const std::vector<SamplingOptions> transforms{
      {.temperature = 0.0f},
      {.temperature = 0.5f},
      {.temperature = 1.0f},
      {.temperature = 2.0f},
      {.temperature = 1.0f, .top_k = 2},
      {.temperature = 1.0f, .top_p = 0.7f},
      {.temperature = 1.5f, .min_p = 0.3f},
      {.temperature = 0.0f, .repeat_penalty = 1.5f, .frequency_penalty = 0.4f},
      {.temperature = 0.8f, .repeat_penalty = 1.3f, .presence_penalty = 0.5f, .penalty_last_n = 3},
      {.temperature = 2.0f,
       .top_k = 3,
       .top_p = 0.9f,
       .min_p = 0.05f,
       .repeat_penalty = 0.8f,
       .frequency_penalty = 0.3f,
       .penalty_last_n = -1},
  };
  return transforms;
}

/// The transforms that the list above leaves out, each alone and in company, and other orders. They
/// share their code with no short cut, so most rules need not be checked under them again.
inline const std::vector<SamplingOptions>& law_stepwise_transforms() {
  using enum Sampler;
  static const std::vector<SamplingOptions> transforms{
      {.temperature = 1.0f, .logit_bias = {{1, 0.7f}, {0, -1.0f}}},
      {.temperature = 1.0f, .bad_words = {{1, 1, 0}, {0, 0, 0}}},
      {.temperature = 1.0f, .dry_multiplier = 0.8f, .dry_allowed_length = 1},
      {.temperature = 0.0f, .dry_multiplier = 0.8f, .dry_allowed_length = 1},
      {.temperature = 0.8f, .dynatemp_range = 0.5f, .dynatemp_exponent = 1.3f},
      {.temperature = 1.0f, .typical_p = 0.6f},
      {.temperature = 1.5f, .top_n_sigma = 1.0f},
      {.temperature = 1.5f, .xtc_probability = 0.6f, .xtc_threshold = 0.2f},
      {.temperature = 1.0f, .mirostat = 2, .mirostat_tau = 0.9f, .mirostat_eta = 1.0f},
      {.temperature = 1.0f,
       .presence_penalty = 0.5f,
       .mirostat = 2,
       .mirostat_tau = 1.2f,
       .mirostat_eta = 0.6f},
      {.temperature = 1.5f,
       .top_p = 0.9f,
       .repeat_penalty = 1.3f,
       .dry_multiplier = 0.5f,
       .dry_allowed_length = 1,
       .dry_breakers = {{1}},
       .xtc_probability = 0.5f,
       .samplers = {kPenalties, kDry, kTopNSigma, kTopK, kTypicalP, kTopP, kMinP, kXtc,
                    kTemperature}},
      {.temperature = 2.0f,
       .top_k = 2,
       .frequency_penalty = 0.5f,
       .xtc_probability = 0.4f,
       .samplers = {kXtc, kTemperature, kTopK, kPenalties}},
  };
  return transforms;
}

struct LawSize {
  int n_vocab;
  int depth;
  bool trees = true;  ///< their paths are many: some hundred thousand at 3 tokens and depth 2
};

/// Total variation between the law of the next 2 (depth + 1) tokens, that is of at least two
/// rounds, and the target's. Every outcome of every draw is followed through the shipped Decoder.
/// @errors KeyReuse where two rounds share a random number; what the rule throws
template <typename D, typename A>
double law_distance(HashTarget& target, const D& drafter, const A& rule,
                    const SamplingOptions& sampling, int depth) {
  Options options{.max_tokens = 1};
  options.sampling = sampling;
  Decoder decoder{target, TokenCache{32, 16}, drafter, rule};
  decoder.generate(Tokens{0, 1}, options);  // the first round after a prompt never drafts
  const Tokens prefix(decoder.tokens().begin(), decoder.tokens().end());
  const int n = 2 * (depth + 1);
  options.n_draft = depth;
  return total_variation(law_by_rounds(decoder, options, n),
                         target_law(target, prefix, sampling, n, 1));
}

/// Adds one case to `report`. Options that the rule's needs() refuses are no case.
inline void check_case(LawReport& report, HashTarget& target,
                       const NamedDrafter<Shape::kTree>& draft, const TreeRule& rule,
                       const SamplingOptions& sampling, int depth) {
  double distance = 1.0;
  std::string problem;
  try {
    (void)rule.needs(sampling);
  } catch (const Error&) {
    ++report.refused;
    return;
  }
  try {
    distance = law_distance(target, draft.drafter, rule, sampling, depth);
  } catch (const std::exception& error) {
    problem = std::string(": ") + error.what();
  }
  if (!report.add(distance)) return;
  std::ostringstream worst;
  worst << target.vocab_size() << " tokens, depth " << depth << ", " << draft.name
        << ", temperature " << sampling.temperature << ", top_k " << sampling.top_k << ", top_p "
        << sampling.top_p << ", min_p " << sampling.min_p
        << (sampling.penalises() ? ", with penalties" : "") << problem;
  report.worst = worst.str();
}

/// Does `rule` leave the target's law alone? Small vocabularies, every transform, every way to
/// draft: chains, and trees where the rule takes them.
/// @cost some seconds of one core
/// @source docs/design/law.md says what is computed and why it suffices
template <Acceptance A>
LawReport check_law(const A& rule,
                    const std::vector<SamplingOptions>& transforms = law_transforms(),
                    std::initializer_list<LawSize> sizes = {{2, 0}, {3, 1}, {2, 2}, {4, 1}}) {
  LawReport report;
  const TreeRule any = TreeRule::of(rule);
  for (const SamplingOptions& sampling : transforms) {
    for (const auto& [n_vocab, depth, trees] : sizes) {
      HashTarget target(n_vocab, 0, 1.5, 5);
      for (const auto& draft : chains_for<Shape::kTree>(target, sampling)) {
        check_case(report, target, draft, any, sampling, depth);
      }
      if (A::shape != Shape::kTree || !trees || depth == 0) continue;
      for (const auto& draft : trees_for(target, sampling)) {
        check_case(report, target, draft, any, sampling, depth);
      }
    }
  }
  return report;
}

}  // namespace foredraft::inline v0::testing
