#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <foredraft/constraint/automaton.hpp>
#include <foredraft/constraint/character_kind.hpp>
#include <foredraft/constraint/plain_tokens.hpp>
#include <foredraft/constraint/pushdown_states.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// How many characters of one kind may follow a state, where the states take all of them alike, as
/// inside a string with or without a bound on its length.
class PlainRuns {
 public:
  using State = PushdownStates::State;
  static constexpr int kUnlike = -1;
  static constexpr State kMixed = -3;  // no state

  PlainRuns(std::shared_ptr<PushdownStates> states, const CharacterKind& kind)
      : states_(std::move(states)) {
    for (int byte = 0; byte < 0x80; ++byte) {
      if (kind.ascii[idx(byte)]) add_class(ascii_, byte);
    }
    if (!kind.beyond) return;
    for (const Encoding& encoding : kEncodings) {
      Classes classes;
      for (const auto& [first, last] : encoding) {
        if (last == 0) break;
        classes.emplace_back();
        for (int byte = first; byte <= last; ++byte) add_class(classes.back(), byte);
      }
      others_.push_back(std::move(classes));
    }
  }

  /// Up to that many characters of the kind may follow, whichever they are, and no more, or
  /// PlainTokens::kMost; kUnlike where it matters which.
  /// @cost a step for each class of bytes, once for each state that is met
  int of(State state) {
    int n = 0;
    for (; n < PlainTokens::kMost; ++n) {
      state = behind(state);
      if (state == kMixed) return kUnlike;
      if (state == PushdownStates::kDead) break;
    }
    return n;
  }

  /// The state behind one such character; PushdownStates::kDead where none is possible, kMixed where
  /// it depends on which.
  State behind(State state) {
    if (idx(state) < behind_.size() && behind_[idx(state)] != kUnknown) return behind_[idx(state)];
    State only = kUnknown;
    try {
      find_only(state, only);
    } catch (const Error&) {
      only = kMixed;  // a text that is read in too many ways, which no token may have
    }
    if (idx(state) >= behind_.size()) behind_.resize(idx(states_->size()), kUnknown);
    return behind_[idx(state)] = only;
  }

 private:
  using Encoding = std::array<std::pair<int, int>, 4>;
  using Classes = std::vector<std::vector<int>>;  // of the first byte, the second and so on
  static constexpr State kUnknown = -2;

  /// First and last of each byte. @source RFC 3629, section 4
  static constexpr std::pair<int, int> kNext{0x80, 0xBF};
  static constexpr std::array<Encoding, 8> kEncodings{
      Encoding{{{0xC2, 0xDF}, kNext}},
      Encoding{{{0xE0, 0xE0}, {0xA0, 0xBF}, kNext}},
      Encoding{{{0xE1, 0xEC}, kNext, kNext}},
      Encoding{{{0xED, 0xED}, {0x80, 0x9F}, kNext}},
      Encoding{{{0xEE, 0xEF}, kNext, kNext}},
      Encoding{{{0xF0, 0xF0}, {0x90, 0xBF}, kNext, kNext}},
      Encoding{{{0xF1, 0xF3}, kNext, kNext, kNext}},
      Encoding{{{0xF4, 0xF4}, {0x80, 0x8F}, kNext, kNext}}};

  void add_class(std::vector<int>& classes, int byte) const {
    const int found = states_->automaton().class_of(static_cast<unsigned char>(byte));
    if (std::find(classes.begin(), classes.end(), found) == classes.end()) classes.push_back(found);
  }

  void find_only(State state, State& only) {
    for (const int byte_class : ascii_) {
      if (!agree(states_->step_class(state, byte_class), only)) return;
    }
    for (const Classes& classes : others_) {
      if (!follow(state, classes, only)) return;
    }
  }
  /// Byte by byte, for all states that may be reached at once: they are few, and the ways to them are
  /// as many as the classes of all bytes multiplied.
  bool follow(State state, const Classes& classes, State& only) {
    reached_.assign(1, state);
    for (const std::vector<int>& byte_classes : classes) {
      next_.clear();
      for (const State from : reached_) {
        for (const int byte_class : byte_classes) {
          const State to = states_->step_class(from, byte_class);
          if (to == PushdownStates::kDead) {
            if (!agree(to, only)) return false;
          } else if (std::find(next_.begin(), next_.end(), to) == next_.end()) {
            next_.push_back(to);
          }
        }
      }
      reached_.swap(next_);
    }
    return std::all_of(reached_.begin(), reached_.end(), [&](State to) { return agree(to, only); });
  }
  static bool agree(State found, State& only) {
    if (only == kUnknown) only = found;
    if (only != found) only = kMixed;
    return only != kMixed;
  }

  std::shared_ptr<PushdownStates> states_;
  std::vector<int> ascii_;
  std::vector<Classes> others_;  // characters of several bytes
  std::vector<State> behind_;    // [states]
  // Of one byte of a character, and of the next.
  std::vector<State> reached_;
  std::vector<State> next_;
};

}  // namespace foredraft::inline v0
