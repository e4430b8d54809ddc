#pragma once

#include <utility>
#include <variant>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/core/concepts.hpp>

namespace foredraft::inline v0 {

/// One of the lossless rules, chosen at run time. It takes chains, which all of them can verify.
class AnyAcceptance {
 public:
  static constexpr Shape shape = Shape::kChain;
  static constexpr bool uses_law =
      true;  // an upper bound; uses_law_now() says what the held rule does
  static constexpr bool lossless = true;

  template <Acceptance A>
    requires(!std::same_as<A, AnyAcceptance>)
  AnyAcceptance(A rule) : rule_(std::move(rule)) {}  // NOLINT(google-explicit-constructor)

  bool uses_law_now() const noexcept {
    return std::visit([]<typename A>(const A&) { return A::uses_law; }, rule_);
  }
  RowNeed needs(const SamplingOptions& sampling) const {
    return std::visit([&](const auto& rule) { return rule.needs(sampling); }, rule_);
  }
  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    return std::visit([&](const auto& rule) { return rule.verify(draft, rows, rng); }, rule_);
  }

 private:
  std::variant<Greedy, SampleAndMatch, RejectionSampling, BlockVerification> rule_;
};

static_assert(Acceptance<AnyAcceptance>);

}  // namespace foredraft::inline v0
