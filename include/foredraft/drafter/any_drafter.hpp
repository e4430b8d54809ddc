#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <foredraft/core/any_state.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// Any drafter behind one type, chosen at run time. `S` is the widest draft it may hold: a chain by
/// default, which every acceptance rule can verify. All that a drafter may ask for comes through.
/// @tparam C a drafter that is held drafts in steps (SteppedDrafter) if its model has caches of this type.
/// Others make the passes of their models themselves
/// @cost one virtual call a step of a round
template <Shape S = Shape::kChain, typename C = void>
class AnyDrafter {
 public:
  using DraftCache = C;

  static constexpr Proposal proposal = Proposal::kLaw;
  static constexpr Shape shape = S;
  static constexpr bool controls = false;
  using Snapshot = AnyState;

  template <Drafter D>
    requires(!std::same_as<D, AnyDrafter>)
  AnyDrafter(D drafter)  // NOLINT(google-explicit-constructor): a drafter is an AnyDrafter
      : drafter_(std::make_unique<Holder<D>>(std::move(drafter))) {
    static_assert(
        S == Shape::kTree || D::shape == Shape::kChain,
        "this drafter proposes trees: hold it in AnyDrafter<Shape::kTree> and use an acceptance "
        "rule that verifies trees");
    static_assert(
        !requires(D held) { held.learn_from(held.learned()); },
        "this drafter has a controller, and whoever takes an AnyDrafter adds one: hand it "
        "over as it is, or erase the drafters inside it");
  }

  int max_depth() const { return drafter_->max_depth(); }
  std::span<const int> taps() const { return drafter_->taps(); }
  RowNeed needs() const { return drafter_->needs(); }
  std::optional<int> backlog(int n_tokens) const { return drafter_->backlog(n_tokens); }
  std::string summary() const { return drafter_->summary(); }
  bool continues() const { return drafter_->continues(); }
  void attach(const TargetInfo& target) { drafter_->attach(target); }
  void propose(const Context& context, Limit limit, DraftTree& draft) {
    drafter_->propose(context, limit, draft);
  }
  /// As SteppedDrafter. One that leaves no passes to others proposes where it would begin.
  void begin(const Context& context, Limit limit, DraftTree& draft)
    requires(!std::same_as<C, void>)
  {
    drafter_->begin(context, limit, draft);
  }
  std::optional<Request<C>> request()
    requires(!std::same_as<C, void>)
  {
    return drafter_->request();
  }
  void advance(DraftTree& draft, double seconds)
    requires(!std::same_as<C, void>)
  {
    drafter_->advance(draft, seconds);
  }
  void absorb(const PromptBlock& block) { drafter_->absorb(block); }
  void commit(const Round& round) noexcept { drafter_->commit(round); }
  void truncate(int n) noexcept { drafter_->truncate(n); }
  void reset() noexcept { drafter_->reset(); }
  Snapshot snapshot() const { return drafter_->snapshot(); }
  /// An empty one is that of a drafter that has read nothing.
  /// @errors kInvalidOption where the snapshot comes from another kind of drafter
  void restore(const Snapshot& snapshot) { drafter_->restore(snapshot); }

  /// The drafter that is held; null where it is of another type.
  template <typename D>
  D* get() noexcept {
    auto* holder = dynamic_cast<Holder<D>*>(drafter_.get());
    return holder == nullptr ? nullptr : &holder->drafter;
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual int max_depth() const = 0;
    virtual std::span<const int> taps() const = 0;
    virtual RowNeed needs() const = 0;
    virtual std::optional<int> backlog(int) const = 0;
    virtual std::string summary() const = 0;
    virtual bool continues() const = 0;
    virtual void attach(const TargetInfo&) = 0;
    virtual void propose(const Context&, Limit, DraftTree&) = 0;
    virtual void begin(const Context&, Limit, DraftTree&) = 0;
    virtual std::optional<Request<C>> request() = 0;
    virtual void advance(DraftTree&, double) = 0;
    virtual void absorb(const PromptBlock&) = 0;
    virtual void commit(const Round&) noexcept = 0;
    virtual void truncate(int) noexcept = 0;
    virtual void reset() noexcept = 0;
    virtual AnyState snapshot() const = 0;
    virtual void restore(const AnyState&) = 0;
  };

  template <typename D>
  struct Holder final : Interface {
    static constexpr bool kInSteps = SteppedDrafter<D> && std::same_as<DraftCacheOf<D>, C>;

    explicit Holder(D held) : drafter(std::move(held)) {}
    int max_depth() const override { return drafter.max_depth(); }
    std::span<const int> taps() const override { return drafter.taps(); }
    RowNeed needs() const override { return drafter.needs(); }
    std::optional<int> backlog(int n_tokens) const override { return drafter.backlog(n_tokens); }
    std::string summary() const override { return drafter.summary(); }
    bool continues() const override { return drafter.continues(); }
    void attach(const TargetInfo& target) override { drafter.attach(target); }
    void propose(const Context& context, Limit limit, DraftTree& draft) override {
      drafter.propose(context, limit, draft);
    }
    void begin(const Context& context, Limit limit, DraftTree& draft) override {
      if constexpr (kInSteps) {
        drafter.begin(context, limit, draft);
      } else {
        drafter.propose(context, limit, draft);
      }
    }
    std::optional<Request<C>> request() override {
      if constexpr (kInSteps) {
        return drafter.request();
      } else {
        return std::nullopt;
      }
    }
    void advance([[maybe_unused]] DraftTree& draft, [[maybe_unused]] double seconds) override {
      if constexpr (kInSteps) drafter.advance(draft, seconds);
    }
    void absorb(const PromptBlock& block) override { drafter.absorb(block); }
    void commit(const Round& round) noexcept override { drafter.commit(round); }
    void truncate(int n) noexcept override { drafter.truncate(n); }
    void reset() noexcept override { drafter.reset(); }
    AnyState snapshot() const override { return AnyState::of(drafter.snapshot()); }
    void restore(const AnyState& snapshot) override {
      if (snapshot.empty()) return drafter.reset();
      const auto* held = snapshot.template get<typename D::Snapshot>();
      if (held == nullptr) {
        throw Error(ErrorCode::kInvalidOption, "the snapshot of another kind of drafter",
                    "one of the drafter that is held", "restore it where it was taken");
      }
      drafter.restore(*held);
    }
    D drafter;
  };

  std::unique_ptr<Interface> drafter_;
};

static_assert(Drafter<AnyDrafter<>> && !SteppedDrafter<AnyDrafter<>>);

}  // namespace foredraft::inline v0
