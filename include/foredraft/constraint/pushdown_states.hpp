#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <foredraft/constraint/automaton.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// The states that texts lead an automaton to, made as they are met and named by a number. A state
/// is the set of all places where the text so far may be in the grammar, each a node and the rules
/// that are open there; so no way to read a text is ever given up or tried again. Steps between
/// states are kept: the second time a byte costs one look-up.
///
/// A place stays only if the grammar can come to its end from there, within Automaton::kMaxDepth
/// open rules. So each state can be continued to the end.
/// @cost memory: for each state a number for each class of bytes, and its places
class PushdownStates {
 public:
  using State = int;
  static constexpr State kDead = -1;
  /// A part of a grammar that can be read in more ways at once is refused.
  static constexpr std::size_t kMostPlaces = 4096;

  /// @errors kInvalidConstraint, as step()
  explicit PushdownStates(std::shared_ptr<const Automaton> automaton)
      : automaton_(std::move(automaton)), frames_{{Automaton::kFinal, 0, 0}} {
    places_.clear();
    close({automaton_->start(), 0});
    start_ = intern();
  }

  const Automaton& automaton() const noexcept { return *automaton_; }
  State start() const noexcept { return start_; }
  int size() const noexcept { return static_cast<int>(states_.size()); }
  std::size_t bytes() const noexcept {
    return steps_.size() * sizeof(State) + frames_.size() * (sizeof(Frame) + 48) +
           states_.size() * 96 + state_at_.size() * 48 + n_places_ * sizeof(Place);
  }

  /// kDead where no text goes on with that byte.
  /// @errors kInvalidConstraint where more than kMostPlaces places are possible
  State step(State state, unsigned char byte) {
    return step_class(state, automaton_->class_of(byte));
  }
  State step_class(State state, int byte_class) {
    const std::size_t at = idx(state) * idx(automaton_->classes()) + idx(byte_class);
    if (steps_[at] != kUnknown) return steps_[at];
    read_.clear();
    for (const Place& place : *states_[idx(state)]) {
      if (place.node == Automaton::kFinal || !automaton_->reads(place.node, byte_class)) continue;
      read_.push_back({automaton_->next(place.node), place.frame});
    }
    const State next = read_.size() == 1 ? state_at(read_.front()) : state_of_read();
    return steps_[at] = next;
  }

  /// The text may end here.
  bool may_end(State state) const noexcept {
    return states_[idx(state)]->front().node == Automaton::kFinal;
  }
  /// And cannot go on.
  bool finished(State state) const noexcept {
    return may_end(state) && states_[idx(state)]->size() == 1;
  }

  /// The only byte that may follow, where there is one and the text may not end; else -1.
  int only_byte(State state) {
    if (may_end(state)) return -1;
    int only = -1;
    for (int c = 0; c < automaton_->classes(); ++c) {
      if (step_class(state, c) == kDead) continue;
      if (only >= 0 || automaton_->members(c) != 1) return -1;
      only = automaton_->first_member(c);
    }
    return only;
  }

  /// The same state among other states of the same automaton.
  State copy_to(PushdownStates& other, State state) const {
    other.places_.clear();
    for (const Place& place : *states_[idx(state)]) {
      other.places_.push_back({place.node, copy_frame(other, place.frame)});
    }
    return other.intern();
  }

 private:
  static constexpr State kUnknown = -2;

  /// Open rules: behind the innermost of them goes `next`, then `parent`.
  struct Frame {
    Automaton::Node next;
    int parent;
    int depth;
  };
  struct Place {
    Automaton::Node node;
    int frame;  // 0: no rule is open but the first
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Places = std::vector<Place>;
  struct HashPlaces {
    std::size_t operator()(const Places* places) const noexcept {
      std::uint64_t hash = places->size();
      for (const Place& place : *places) {
        hash = (hash ^ key(place.node, place.frame)) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
      }
      return static_cast<std::size_t>(hash);
    }
  };
  struct EqualPlaces {
    bool operator()(const Places* a, const Places* b) const noexcept { return *a == *b; }
  };

  static std::uint64_t key(int a, int b) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 |
           static_cast<std::uint32_t>(b);
  }

  /// The state of the places in read_, with what may be read from there without a byte.
  State state_of_read() {
    places_.clear();
    seen_.clear();
    for (const Place& place : read_) close(place);
    return places_.empty() ? kDead : intern();
  }
  /// Most bytes lead to one place, which many bytes lead to.
  State state_at(Place place) {
    const auto [found, fresh] = state_at_.try_emplace(key(place.node, place.frame), kDead);
    if (fresh) {
      try {
        found->second = state_of_read();
      } catch (...) {
        state_at_.erase(found);
        throw;
      }
    }
    return found->second;
  }

  /// Add to places_ where a byte is read, or the text ends, on the way from `from`.
  void close(Place from) {
    open_.assign(1, from);
    while (!open_.empty()) {
      const Place place = open_.back();
      open_.pop_back();
      const int depth = frames_[idx(place.frame)].depth;
      if (depth + automaton_->height(place.node) > Automaton::kMaxDepth) continue;
      if (!seen_.insert(key(place.node, place.frame)).second) continue;
      switch (automaton_->kind(place.node)) {
        case Automaton::Kind::kByte: places_.push_back(place); break;
        case Automaton::Kind::kSplit:
          for (const auto target : automaton_->targets(place.node)) {
            open_.push_back({target, place.frame});
          }
          break;
        case Automaton::Kind::kCall: {
          const auto next = automaton_->next(place.node);
          const bool last = next == Automaton::kFinal;
          open_.push_back(
              {automaton_->callee(place.node), last ? place.frame : frame(next, place.frame)});
          break;
        }
        case Automaton::Kind::kFinal:
          if (place.frame == 0) {
            places_.push_back(place);
          } else {
            open_.push_back({frames_[idx(place.frame)].next, frames_[idx(place.frame)].parent});
          }
          break;
      }
      if (places_.size() + open_.size() <= kMostPlaces) continue;
      throw Error(
          ErrorCode::kInvalidConstraint,
          "a text that the grammar reads in more than " + std::to_string(kMostPlaces) + " ways",
          "a grammar with fewer ways to read one text",
          "do not repeat what may be empty or begins like what follows it");
    }
  }

  int frame(Automaton::Node next, int parent) {
    const auto [place, fresh] =
        frame_of_.try_emplace(key(next, parent), static_cast<int>(frames_.size()));
    if (fresh) frames_.push_back({next, parent, frames_[idx(parent)].depth + 1});
    return place->second;
  }
  int copy_frame(PushdownStates& other, int from) const {
    std::vector<Automaton::Node> path;
    for (; from != 0; from = frames_[idx(from)].parent) path.push_back(frames_[idx(from)].next);
    int to = 0;
    for (auto next = path.rbegin(); next != path.rend(); ++next) to = other.frame(*next, to);
    return to;
  }

  /// The state of places_.
  State intern() {
    std::sort(places_.begin(), places_.end());
    if (const auto found = state_of_.find(&places_); found != state_of_.end()) return found->second;
    n_places_ += places_.size();
    steps_.resize((states_.size() + 1) * idx(automaton_->classes()), kUnknown);
    states_.push_back(std::make_unique<const Places>(places_));
    const auto made = static_cast<State>(states_.size()) - 1;
    state_of_.emplace(states_.back().get(), made);
    return made;
  }

  std::shared_ptr<const Automaton> automaton_;
  State start_ = kDead;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, int> frame_of_;
  std::vector<std::unique_ptr<const Places>> states_;
  std::unordered_map<const Places*, State, HashPlaces, EqualPlaces> state_of_;
  std::unordered_map<std::uint64_t, State> state_at_;
  std::vector<State> steps_;  // [states, classes]
  std::size_t n_places_ = 0;
  // Buffers of step().
  Places read_;
  Places places_;
  Places open_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace foredraft::inline v0
