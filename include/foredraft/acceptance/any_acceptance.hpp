#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// Any acceptance rule behind one type, chosen at run time. `S` is the widest draft it is given.
/// Copies share the rule.
/// @cost one virtual call a round
template <Shape S>
class AnyAcceptanceFor {
 public:
  static constexpr Shape shape = S;
  static constexpr bool lossless = false;  // it may hold a rule that is not

  template <Acceptance A>
    requires(!std::same_as<A, AnyAcceptanceFor>)
  AnyAcceptanceFor(A rule)  // NOLINT(google-explicit-constructor): a rule is an AnyAcceptance
      : rule_(std::make_shared<const Holder<A>>(std::move(rule))) {}

  bool uses_law() const noexcept { return rule_->uses_law(); }
  RowNeed needs(const SamplingOptions& sampling) const { return rule_->needs(sampling); }
  /// @errors kInvalidOption for a tree, where the rule verifies chains only; else as the rule
  Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const {
    return rule_->verify(draft, rows, rng);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual bool uses_law() const noexcept = 0;
    virtual RowNeed needs(const SamplingOptions&) const = 0;
    virtual Verdict verify(const DraftTree&, const RowSampler&, Rng&) const = 0;
  };

  template <typename A>
  struct Holder final : Interface {
    explicit Holder(A held) : rule(std::move(held)) {}
    bool uses_law() const noexcept override { return rule.uses_law(); }
    RowNeed needs(const SamplingOptions& sampling) const override { return rule.needs(sampling); }
    Verdict verify(const DraftTree& draft, const RowSampler& rows, Rng& rng) const override {
      if (A::shape == Shape::kChain && !draft.is_chain()) {
        throw Error(ErrorCode::kInvalidOption,
                    "a tree for an acceptance rule that verifies chains only", "a chain",
                    "use a rule for trees, such as RejectionSampling, or draft chains");
      }
      return rule.verify(draft, rows, rng);
    }
    A rule;
  };

  std::shared_ptr<const Interface> rule_;
};

/// For chains, which every rule verifies.
using AnyAcceptance = AnyAcceptanceFor<Shape::kChain>;
/// For trees as well. A rule that verifies chains only refuses a tree when it meets one.
using AnyTreeAcceptance = AnyAcceptanceFor<Shape::kTree>;
static_assert(Acceptance<AnyAcceptance> && Acceptance<AnyTreeAcceptance>);

}  // namespace foredraft::inline v0
