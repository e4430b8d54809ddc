#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/control/controller.hpp>
#include <foredraft/control/merged_draft.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/draft_check.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/utf8.hpp>
#include <foredraft/drafter/any_drafter.hpp>

namespace foredraft::inline v0 {

/// Several drafters as one that is not slower than none of them.
///
/// In each round all drafters without a model are asked, since that costs microseconds. The one with
/// a model that promises most runs only where it promises more than they do, as deep as pays. What
/// comes of it is merged, and the part of it is verified that is worth most by what is accepted
/// lately, by drafter, confidence and depth, and by what rows cost on this machine in this context;
/// where nothing pays, that is nothing (see Controller).
///
/// A drafter that continues() is asked once more behind the end of a model's draft: what the model
/// wrote may be where the text goes on as it did before.
///
/// All of it is decided by rounds that are over and by point masses. A draft that was drawn from q is
/// handed on as it is, and may only be prolonged. So the law of the text is that of the target. Which
/// text of that law a seed gives depends on clocks, under rules that test with q; Options::n_draft
/// gives a fixed depth instead.
///
/// One drafter's failure does not end the round: it has proposed nothing, and is asked again later, less
/// and less often. summary() says why. That of the only one is the caller's to know.
///
/// In steps (SteppedDrafter) the passes of the drafter that was chosen are left to the caller, and cost
/// what the caller says. Whoever drafts with several models knows by the request's cache which one is meant.
/// @cost besides the drafters a few microseconds a round
/// @see Chain, Controlled
/// @tparam S kChain of drafters that propose trees: of their trees one path is verified
template <Drafter D, Shape S = D::shape>
class ControlledDrafters {
 public:
  struct Snapshot {
    std::vector<typename D::Snapshot> drafters;

    static void parts(auto& self, auto& archive) { archive(self.drafters); }
  };

  using DraftCache = DraftCacheOf<D>;

  static constexpr Proposal proposal = D::proposal;
  static constexpr Shape shape = S;
  static constexpr bool controls = true;
  static constexpr int kMostParts = 32;

  /// One more, before the chain is attached. @errors kInvalidOption beyond kMostParts
  void add(std::string name, D drafter) {
    if (parts_.size() == idx(kMostParts)) {
      throw Error(ErrorCode::kInvalidOption, "one drafter more",
                  "at most " + std::to_string(kMostParts) + " in a chain", "");
    }
    const std::span<const int> taps = drafter.taps();
    taps_.insert(taps_.end(), taps.begin(), taps.end());
    std::sort(taps_.begin(), taps_.end());
    taps_.erase(std::unique(taps_.begin(), taps_.end()), taps_.end());
    needs_ = std::max(needs_, drafter.needs());
    const bool has_model = drafter.backlog(0).has_value();
    parts_.push_back({std::move(name), std::move(drafter), has_model, {}, false, {}});
    control_.watch(parts_.size());
  }
  /// Tell time by another clock than std::chrono::steady_clock.
  void use_clock(Controller::Clock clock) noexcept { control_.use_clock(clock); }

  int max_depth() const {
    int depth = 0;
    for (const Part& part : parts_) depth = std::max(depth, part.drafter.max_depth());
    return depth;
  }
  std::span<const int> taps() const noexcept { return taps_; }
  RowNeed needs() const noexcept { return needs_; }  // of the part that reads most
  void attach(const TargetInfo& target) {
    for (Part& part : parts_) part.drafter.attach(target);
  }
  bool continues() const noexcept { return false; }
  /// Of the drafter that lags behind most.
  std::optional<int> backlog(int n_tokens) const {
    std::optional<int> most;
    for (const Part& part : parts_) most = std::max(most, part.drafter.backlog(n_tokens));
    return most;
  }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    begin_round(context, limit);
    if (passes_on(limit)) {
      return pass_on(limit, [&](D& only) { only.propose(context, limit, draft); });
    }
    if (catches_up(limit)) return catch_up(context, limit, true);
    const auto model = ask_others(context, limit, draft);
    if (!model) return;
    const double begin = control_.now();
    const bool proposed = propose_one(model->i, context, model->plan.limit, parts_[model->i].tree);
    complete(*model, proposed, control_.now() - begin, context, limit, draft);
  }

  /// The same in steps.
  void begin(const Context& context, Limit limit, DraftTree& draft)
    requires SteppedDrafter<D>
  {
    begin_round(context, limit);
    if (passes_on(limit)) {
      open_ = Open{.context = context, .limit = limit, .passed_on = true};
      return pass_on(limit, [&](D& only) { only.begin(context, limit, draft); });
    }
    if (catches_up(limit)) return catch_up(context, limit, false);
    const auto model = ask_others(context, limit, draft);
    if (!model) return;
    open_ = Open{.context = context, .limit = limit, .model = *model};
    step(0, draft,
         [&](D& drafter, DraftTree& own) { drafter.begin(context, model->plan.limit, own); });
  }
  std::optional<Request<DraftCache>> request()
    requires SteppedDrafter<D>
  {
    if (!open_) return std::nullopt;
    return parts_[open_->model.i].drafter.request();
  }
  /// @param seconds  that the pass took, as whoever made it counts: it is the price of the draft
  void advance(DraftTree& draft, double seconds)
    requires SteppedDrafter<D>
  {
    if (open_->passed_on) return parts_[0].drafter.advance(draft, seconds);
    step(seconds, draft, [&](D& drafter, DraftTree& own) { drafter.advance(own, seconds); });
  }

  void absorb(const PromptBlock& block) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      guard(i, [&] { parts_[i].drafter.absorb(block); });
    }
  }

  void commit(const Round& round) noexcept {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const DraftTree& tree = parts_[i].tree;
      if (drawn_ == i) {
        control_.learn(i, round.draft, std::min(n_drawn_, round.draft.size()), round.tokens);
      } else {
        control_.learn(i, tree, tree.size(), round.tokens);
      }
      parts_[i].tree.truncate(1);
      parts_[i].drafter.commit(round);
    }
    drawn_ = kNone;
    control_.learn(round);
  }

  void truncate(int n) noexcept {
    for (Part& part : parts_) part.drafter.truncate(n);
    begin_text();
  }
  void reset() noexcept {
    for (Part& part : parts_) part.drafter.reset();
    begin_text();
  }
  Snapshot snapshot() const {
    Snapshot snapshot;
    for (const Part& part : parts_) snapshot.drafters.push_back(part.drafter.snapshot());
    return snapshot;
  }
  /// What was learned of costs and acceptance stays: it is not part of a text.
  /// @errors kInvalidOption where the snapshot is that of other drafters
  void restore(const Snapshot& snapshot) {
    if (snapshot.drafters.empty()) return reset();
    if (snapshot.drafters.size() != parts_.size()) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(snapshot.drafters.size()) + " drafters",
                  "one of " + std::to_string(parts_.size()), "restore it where it was taken");
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].drafter.restore(snapshot.drafters[i]);
    begin_text();
  }

  /// What each drafter did, what was chosen and why, a line each.
  std::string summary() const {
    std::string text;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      text += parts_[i].name + ": " + control_.report(i).text() + "\n";
      if (parts_[i].failure[0] != 0) {
        text += std::string("  the last failure: ") + parts_[i].failure.data() + "\n";
      }
      text += parts_[i].drafter.summary();
    }
    return text;
  }

  const Controller& controller() const noexcept { return control_; }
  /// What was learned of costs and acceptance, for learn_from in this or another process.
  ControllerState learned() const {
    ControllerState state = control_.state();
    for (std::size_t i = 0; i < parts_.size(); ++i) state.drafters[i].name = parts_[i].name;
    return state;
  }
  /// Go on from there, between two texts. Drafters are known by their names: what is said of others
  /// is passed over, and one that the state does not name begins anew.
  /// @errors kInvalidOption as check(const ControllerState&)
  void learn_from(const ControllerState& state) {
    ControllerState own = state;
    own.drafters.clear();
    for (const Part& part : parts_) {
      const ControllerState::Drafter* known = state.drafter(part.name);
      own.drafters.push_back(known != nullptr ? *known
                                              : ControllerState::Drafter{.name = part.name});
    }
    control_.restore(own);
    for (Part& part : parts_) part.failure = {};
  }
  int size() const noexcept { return static_cast<int>(parts_.size()); }
  D& part(int i) noexcept { return parts_[idx(i)].drafter; }
  /// Of part i, which is DraftTree::origin() of its nodes.
  const std::string& name(int i) const noexcept { return parts_[idx(i)].name; }

 private:
  struct Part {
    std::string name;
    D drafter;
    bool has_model;
    DraftTree tree;      // its draft of this round, as it proposed it
    bool asked = false;  // in this round, of those without a model, and did not fail
    // Why it failed the last time; without an allocation, which may be what failed.
    std::array<char, 512> failure{};

    void keep(std::string_view message) noexcept {
      const std::string_view fits = message.substr(0, failure.size() - 1);
      failure = {};
      std::replace_copy(fits.begin(), fits.begin() + complete_utf8_prefix(fits), failure.begin(),
                        '\n', ' ');
    }
  };

  struct Model {
    std::size_t i = 0;
    int backlog = 0;
    Controller::Plan plan;
  };
  /// A draft in steps, whose model may wait for a pass.
  struct Open {
    Context context;
    Limit limit;
    Model model = {};
    double seconds = 0;      // so far
    bool passed_on = false;  // to the only one, and stays until the next round
  };

  void begin_round(const Context& context, Limit limit) {
    drawn_ = kNone;                                  // of a round that failed
    if constexpr (SteppedDrafter<D>) open_.reset();  // others need not fetch it behind each pass
    control_.begin(static_cast<int>(context.tokens.size()) - 1, limit, context.tokens_left);
  }

  /// Nothing is chosen: the only one drafts as it likes.
  bool passes_on(Limit limit) const noexcept {
    return limit.fixed && parts_.size() == 1 && S == D::shape;
  }
  template <typename Act>
  void pass_on(Limit limit, Act&& act) {
    parts_[0].tree.truncate(1);  // of a round that failed
    act(parts_[0].drafter);
    if (limit.depth > 0) control_.passed_on(0);
  }

  /// All that a round does before a model runs. The draft is complete where none is chosen.
  /// @param limit  of several drafts it becomes that of all together
  std::optional<Model> ask_others(const Context& context, Limit& limit, DraftTree& draft) {
    for (Part& part : parts_) part.tree.reset(context.anchor());
    // Of several drafts as many nodes as one chain of that depth has, else all would be verified.
    if (limit.fixed && !limit.fixed_nodes) limit.nodes = std::min(limit.nodes, limit.depth);
    merged_.clear();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].asked = !parts_[i].has_model && control_.asks(i);
      if (parts_[i].asked) ask(i, context, limit);
    }
    const double value = merged_.choose(limit, shape, control_.prices());
    control_.promised(value);
    const auto model = choose_model(context, limit, value);
    if (!model) merged_.write(draft);
    return model;
  }
  /// And behind the model's run. @param proposed  it did not fail
  void complete(const Model& model, bool proposed, double seconds, const Context& context,
                Limit limit, DraftTree& draft) {
    if (proposed) {
      take_in(model, seconds, context, limit, draft);
      if (draft.drafted() > 0) return;  // it was drawn
    } else {
      control_.threw(model.i, seconds);
    }
    merged_.choose(limit, shape, control_.prices());
    merged_.write(draft);
  }

  /// Have the model that was chosen go on, and complete the draft unless it waits for a pass.
  template <typename Act>
  void step(double pass_seconds, DraftTree& draft, Act&& act) {
    Open& open = *open_;
    const std::size_t i = open.model.i;
    Part& part = parts_[i];
    const double begin = control_.now();
    bool waits = false;
    const bool proposed = guard(i, [&] {
      act(part.drafter, part.tree);
      waits = part.drafter.request().has_value();
      if (!waits) check(open.context, open.model.plan.limit, part.tree);
    });
    open.seconds += pass_seconds + control_.now() - begin;
    if (waits) return;
    if (!proposed) part.tree.reset(open.context.end());
    const Open ended = *std::exchange(open_, std::nullopt);
    complete(ended.model, proposed, ended.seconds, ended.context, ended.limit, draft);
  }

  static bool catches_up(Limit limit) noexcept { return limit.fixed && limit.depth == 0; }
  /// Nobody drafts. @param models  they make passes of their own to read what they lack, else they wait
  /// until they are to draft
  void catch_up(const Context& context, Limit limit, bool models) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].tree.reset(context.anchor());
      if (models || !parts_[i].has_model) propose_one(i, context, limit, parts_[i].tree);
    }
  }

  /// `act`, in which one of several drafters may fail: the others go on. @return whether it did not
  template <typename Act>
  bool guard(std::size_t i, Act&& act) {
    const auto fail = [&](const char* why) {
      control_.failed(i);
      parts_[i].keep(why);
      return false;
    };
    const bool alone = parts_.size() == 1;  // nobody is left to go on
    try {
      act();
      return true;
    } catch (const std::exception& error) {
      if (alone) throw;
      return fail(error.what());
    } catch (...) {
      if (alone) throw;
      return fail("an exception without a text");
    }
  }

  /// Nothing of a round that was never finished is learned from in another text.
  void begin_text() noexcept {
    for (Part& part : parts_) part.tree.truncate(1);
    drawn_ = kNone;
    open_.reset();
    control_.begin_text();
  }

  void ask(std::size_t i, const Context& context, Limit limit) {
    const double begin = control_.now();
    parts_[i].asked = propose_one(i, context, limit, parts_[i].tree);
    const double seconds = control_.now() - begin;
    if (!parts_[i].asked) return control_.threw(i, seconds);
    control_.asked(i, seconds);
    merged_.add(parts_[i].tree, static_cast<std::uint8_t>(i), control_.acceptance(i));
  }

  /// The one with a model that promises most, if more than `value`.
  std::optional<Model> choose_model(const Context& context, Limit limit, double value) {
    std::optional<Model> best;
    const auto n_tokens = static_cast<int>(context.tokens.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].has_model) continue;
      Limit own = limit;
      own.depth = std::min(own.depth, parts_[i].drafter.max_depth());
      const int backlog = parts_[i].drafter.backlog(n_tokens).value_or(0);
      const auto plan = control_.plan(i, backlog, own, value);
      if (plan && (!best || plan->value > best->plan.value)) best = {i, backlog, *plan};
    }
    if (best) control_.chosen(best->i, best->plan);
    return best;
  }

  /// Its draft joins the others; one that is drawn from q takes their place, whatever it is worth:
  /// to choose among drawn tokens would change their law.
  void take_in(const Model& model, double seconds, const Context& context, Limit limit,
               DraftTree& draft) {
    DraftTree& tree = parts_[model.i].tree;
    const Limit& own = model.plan.limit;
    const bool drawn = is_drawn(tree);
    const int depth = tree.max_depth();
    const int rows = drawn ? tree.drafted() : worthy_rows(tree, own.prune_below);
    control_.ran(model.i, seconds, std::min({model.backlog, own.read, own.read_at_once}), depth,
                 rows);
    if (drawn) {
      tree.set_origin(1, static_cast<std::uint8_t>(model.i));
      std::swap(draft, tree);
      drawn_ = model.i;
      n_drawn_ = draft.size();
      prolong(context, limit, draft);
    } else {
      const auto origin = static_cast<std::uint8_t>(model.i);
      const int end = merged_.add(tree, origin, control_.acceptance(model.i));
      if (end == 0) return;
      merged_.path_to(end, assumed_);
      continue_behind(context, limit, [&](std::size_t i) {
        merged_.add(tail_, static_cast<std::uint8_t>(i), control_.acceptance(i), end);
      });
    }
  }

  /// Nodes of point masses that are worth a row, by the drafter's own confidence, and not fewer than one
  /// path has. @param least  probability of their paths; 0: nobody knows what a row is worth
  static int worthy_rows(const DraftTree& tree, float least) noexcept {
    std::array<float, DraftTree::kMaxNodes> path{1.0f};
    int n = 0;
    for (NodeIndex node = 1; node < tree.size() && least > 0; ++node) {
      path[idx(node)] = path[idx(tree.parent(node))] * std::max(tree.confidence(node), 0.0f);
      n += path[idx(node)] >= least;
    }
    return std::max(n, tree.max_depth());
  }

  /// Let drafters without a model draft behind assumed_, and call take(i) for each draft, in tail_.
  template <typename Take>
  void continue_behind(Context context, Limit limit, Take&& take) {
    context.assumed = assumed_;
    limit.depth -= static_cast<int>(assumed_.size());
    limit.nodes -= static_cast<int>(assumed_.size());
    if (limit.depth <= 0 || limit.nodes <= 0) return;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].asked || !parts_[i].drafter.continues()) continue;
      tail_.reset(context.end());
      propose_one(i, context, limit, tail_);
      if (tail_.drafted() > 0) take(i);
    }
  }

  /// Behind a drawn chain, which is verified anyway, the longest part of a continuation that pays.
  void prolong(const Context& context, Limit limit, DraftTree& draft) {
    if (!draft.is_chain()) return;
    assumed_.clear();
    double path = 1;
    for (NodeIndex node = 1; node < draft.size(); ++node) {
      assumed_.push_back(draft.token(node));
      path *= control_.acceptance(drawn_).rate(draft.confidence(node), node);
    }
    double best = 0;
    continue_behind(context, limit, [&](std::size_t i) {
      if (!tail_.is_chain()) return;
      double gain = 0;
      double reached = path;
      for (NodeIndex node = 1; node < tail_.size(); ++node) {
        reached *= control_.acceptance(i).rate(tail_.confidence(node), node);
        gain += reached;
        const auto& prices = control_.prices();
        const double value = gain - (prices[idx(n_drawn_ + node)] - prices[idx(n_drawn_)]);
        if (value <= best) continue;
        best = value;
        draft.truncate(n_drawn_);
        for (NodeIndex from = 1; from <= node; ++from) {
          draft.set_confidence(draft.extend(tail_.token(from)), tail_.confidence(from));
        }
        draft.set_origin(n_drawn_, static_cast<std::uint8_t>(i));
      }
    });
  }

  /// Fills `tree`, as a rule the part's own; it holds node 0 alone where the drafter failed.
  /// @return whether it did not
  bool propose_one(std::size_t i, const Context& context, Limit limit, DraftTree& tree) {
    Part& part = parts_[i];
    limit.depth = std::min(limit.depth, part.drafter.max_depth());
    const bool proposed = guard(i, [&] {
      part.drafter.propose(context, limit, tree);
      check(context, limit, tree);
    });
    if (!proposed) tree.reset(context.end());
    return proposed;
  }
  /// What a part proposed. @errors kInvalidDraft
  static void check(const Context& context, Limit limit, DraftTree& tree) {
    check_draft(tree, context, limit, is_drawn(tree) ? S : D::shape);
    if (context.constraint != nullptr) drop_forbidden(behind_assumed(context), tree);
  }

  static ConstraintPath behind_assumed(const Context& context) {
    ConstraintPath path = *context.constraint;
    for (const TokenId token : context.assumed) path.step(token);
    return path;
  }

  static bool is_drawn(const DraftTree& tree) noexcept {
    for (NodeIndex node = 0; node < tree.size(); ++node) {
      if (tree.siblings(node) != Siblings::kPointMass && tree.first_child(node) >= 0) return true;
    }
    return false;
  }

  static constexpr std::size_t kNone = kMostParts;
  std::vector<Part> parts_;
  std::vector<int> taps_;
  RowNeed needs_ = RowNeed::kNothing;
  Controller control_;
  MergedDraft merged_;
  std::vector<TokenId> assumed_;  // the model's draft ...
  DraftTree tail_;                // ... and what another drafter drafts behind it
  std::size_t drawn_ = kNone;     // whose draft, drawn from q, is that of the round ...
  int n_drawn_ = 0;               // ... in its first nodes
  std::optional<Open> open_;
};

/// Several drafters of any kind, in the order of preference where they promise the same:
/// `Chain{PromptLookup{}, ModelDrafter{draft}}`.
/// @tparam C as of AnyDrafter: a Chain<S, C> drafts in steps, any other makes all passes itself
template <Shape S = Shape::kChain, typename C = void>
class Chain : public ControlledDrafters<AnyDrafter<S, C>> {
  using Part = AnyDrafter<S, C>;

 public:
  template <typename... D>
    requires(std::constructible_from<Part, D> && ...)
  explicit Chain(D... drafters) {
    (this->add("drafter " + std::to_string(this->size() + 1), Part(std::move(drafters))), ...);
  }
};
template <typename... D>
Chain(D...) -> Chain<((D::shape == Shape::kTree) || ...) ? Shape::kTree : Shape::kChain>;

static_assert(Drafter<Chain<>>);

/// A drafter that drafts as much as pays, and nothing where nothing does: a chain of one, whose part is
/// named "drafter". So what was learned is to be handed on to one of the same kind.
template <Drafter D>
class Controlled : public ControlledDrafters<D> {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): where a drafter is taken, a controlled one is
  Controlled(D drafter) { this->add("drafter", std::move(drafter)); }

  D& inner() noexcept { return this->part(0); }
};

namespace detail {

/// A drafter as it was given, whether it was given to a controller or not.
template <typename D>
D& without_controller(D& drafter) noexcept {
  return drafter;
}
template <typename D>
D& without_controller(Controlled<D>& controlled) noexcept {
  return controlled.inner();
}

}  // namespace detail

}  // namespace foredraft::inline v0
