#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <foredraft/constraint/automaton.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/constraint/plain_runs.hpp>
#include <foredraft/constraint/pushdown_states.hpp>
#include <foredraft/core/constraint.hpp>
#include <foredraft/core/error.hpp>

namespace foredraft::inline v0 {

/// The whole answer is a text of a grammar. A token is allowed where its bytes go on from the text
/// so far, whatever they span: the end of one rule and the beginning of others, or a part of a
/// character.
///
/// States and masks are kept as they are met, for all texts of all copies, up to about kMostBytes;
/// beyond that they are made anew.
/// @cost a mask that was not met before: a walk over the tree of the vocabulary's tokens, as far as
/// they are allowed, without plain ones where characters are taken alike; else a look-up. Memory
/// besides for each of up to four counted kinds of characters (Automaton::counted): about 4 MiB for
/// 152k tokens
class GrammarConstraint {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  class State {
    friend class GrammarConstraint;
    std::shared_ptr<PushdownStates> states;
    PushdownStates::State state = PushdownStates::kDead;
  };

  /// @param most_bytes  for what is kept, give or take what one mask takes
  /// @errors kInvalidConstraint where the grammar is left-recursive, has no text, or no token of the
  /// vocabulary begins one
  GrammarConstraint(const Grammar& grammar, std::shared_ptr<const PieceTrie> tokens,
                    std::size_t most_bytes = kMostBytes)
      : kept_(std::make_shared<Kept>()) {
    kept_->tokens = std::move(tokens);
    kept_->automaton = std::make_shared<const Automaton>(grammar);
    kept_->most_bytes = most_bytes;
    kept_->plain.emplace_back(kept_->tokens, &kept_->tokens->plain_in_json());
    for (const CharacterKind& kind : kept_->automaton->counted()) {
      if (kept_->plain.size() == kMostKinds) break;
      if (kind == kept_->plain.front()->kind()) continue;
      kept_->plain.push_back(std::make_shared<const PlainTokens>(kept_->tokens->plain(kind)));
    }
    kept_->begin();
    const State begin = start();
    if (mask(begin)->empty() && !may_end(begin)) {
      throw Error(ErrorCode::kInvalidConstraint,
                  "a grammar that no token of the vocabulary can begin",
                  "tokens for the bytes that it asks for");
    }
  }

  int vocab_size() const noexcept { return kept_->tokens->vocab_size(); }

  State start() const {
    const std::lock_guard lock(kept_->mutex);
    State state;
    state.states = kept_->states;
    state.state = state.states->start();
    return state;
  }

  /// @errors kInvalidConstraint, as PushdownStates::step
  std::optional<State> next(const State& state, TokenId token) const {
    if (token < 0 || token >= vocab_size()) return std::nullopt;
    const std::string_view bytes = kept_->tokens->bytes(token);
    if (bytes.empty()) return std::nullopt;
    const std::lock_guard lock(kept_->mutex);
    State behind = state;
    for (const char c : bytes) {
      behind.state = behind.states->step(behind.state, static_cast<unsigned char>(c));
      if (behind.state == PushdownStates::kDead) return std::nullopt;
    }
    return kept_->newest(std::move(behind));
  }

  std::shared_ptr<const TokenSet> mask(const State& state) const {
    const std::lock_guard lock(kept_->mutex);
    const bool newest = state.states == kept_->states;
    if (newest) {
      if (const auto found = kept_->masks.find(state.state); found != kept_->masks.end()) {
        return found->second;
      }
    }
    const auto allowed = std::make_shared<TokenSet>(
        newest ? kept_->allowed(state.state) : kept_->walk(*state.states, state.state));
    if (newest) {
      const std::size_t most = kept_->most_bytes / 2 / (allowed->bytes() + 64) + 1;
      if (kept_->masks.size() >= most) kept_->masks.clear();
      kept_->masks.emplace(state.state, allowed);
    }
    return allowed;
  }

  bool may_end(const State& state) const {
    const std::lock_guard lock(kept_->mutex);
    return state.states->may_end(state.state);
  }
  bool finished(const State& state) const {
    const std::lock_guard lock(kept_->mutex);
    return state.states->finished(state.state);
  }

  /// As long as only one byte is possible, spelled in the longest tokens.
  std::vector<TokenId> forced(const State& state, int n) const {
    constexpr std::size_t kMostForced = 512;
    const std::lock_guard lock(kept_->mutex);
    std::string text;
    auto at = state.state;
    while (text.size() < kMostForced) {
      const int byte = state.states->only_byte(at);
      if (byte < 0) break;
      text += static_cast<char>(byte);
      at = state.states->step(at, static_cast<unsigned char>(byte));
    }
    return kept_->tokens->spell(text, n);
  }

 private:
  static constexpr std::size_t kMostKinds = 5;

  /// What copies share.
  struct Kept {
    void begin() {
      masks.clear();  // first: states are numbered anew
      runs.clear();
      states = std::make_shared<PushdownStates>(automaton);
      for (const auto& tokens_of_kind : plain) runs.emplace_back(states, tokens_of_kind->kind());
    }
    /// A state among the newest states; new ones begin where those there are have grown too many.
    State newest(State state) {
      if (states->bytes() > most_bytes / 2) {
        begin();
      }
      if (state.states != states) {
        state.state = state.states->copy_to(*states, state.state);
        state.states = states;
      }
      return state;
    }

    /// Of a state among the newest: most tokens by the kind of characters that allows the most.
    TokenSet allowed(PushdownStates::State state) {
      std::size_t kind = runs.size();
      int characters = 0;
      for (std::size_t i = 0; i < runs.size(); ++i) {
        const int n = runs[i].of(state);
        if (n == PlainRuns::kUnlike) continue;
        if (kind < runs.size() && plain[i]->size(n) <= plain[kind]->size(characters)) continue;
        kind = i;
        characters = n;
      }
      if (kind == runs.size()) return walk(*states, state);
      TokenSet set = plain[kind]->up_to(characters);
      for (int n = 0; n <= characters; ++n) {
        if (n > 0) state = runs[kind].behind(state);
        walk(*states, state, plain[kind]->behind(n), set);
      }
      return set;
    }
    TokenSet walk(PushdownStates& among, PushdownStates::State state) const {
      TokenSet set(tokens->vocab_size());
      walk(among, state, tokens->all(), set);
      return set;
    }
    static void walk(PushdownStates& among, PushdownStates::State state, const TokenTree& tree,
                     TokenSet& set) {
      tree.walk(
          state, [&](int from, std::uint8_t byte) { return among.step(from, byte); },
          [&](TokenId token) { set.add(token); });
    }

    std::shared_ptr<const PieceTrie> tokens;
    std::shared_ptr<const Automaton> automaton;
    std::size_t most_bytes = 0;
    std::mutex mutex;
    std::vector<std::shared_ptr<const PlainTokens>> plain;  // a kind of characters each
    std::shared_ptr<PushdownStates> states;
    // Of `states`.
    std::vector<PlainRuns> runs;  // for each of `plain`
    std::unordered_map<int, std::shared_ptr<const TokenSet>> masks;
  };

  std::shared_ptr<Kept> kept_;
};

static_assert(Constraint<GrammarConstraint>);

}  // namespace foredraft::inline v0
