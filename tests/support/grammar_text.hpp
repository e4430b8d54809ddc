#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/automaton.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/constraint/pushdown_states.hpp>

/// A grammar asked about whole texts.
class Texts {
 public:
  explicit Texts(const foredraft::Grammar& grammar)
      : states_(std::make_shared<const foredraft::Automaton>(grammar)) {}

  /// Some text of the grammar begins so.
  bool begins(std::string_view text) { return state_behind(text) >= 0; }
  /// It is a text of the grammar.
  bool accepts(std::string_view text) {
    const int state = state_behind(text);
    return state >= 0 && states_.may_end(state);
  }

 private:
  int state_behind(std::string_view text) {
    int state = states_.start();
    for (const char c : text) {
      if (state >= 0) state = states_.step(state, static_cast<unsigned char>(c));
    }
    return state;
  }

  foredraft::PushdownStates states_;
};

inline std::shared_ptr<const foredraft::PieceTrie> trie_of(const std::vector<std::string>& pieces) {
  return std::make_shared<const foredraft::PieceTrie>(
      static_cast<int>(pieces.size()),
      [&pieces](foredraft::TokenId token) { return pieces[foredraft::idx(token)]; });
}

/// Tokens of a tree whose bytes there `text` begins with, ascending.
inline std::vector<foredraft::TokenId> walked(const foredraft::TokenTree& tree,
                                              std::string_view text) {
  std::vector<foredraft::TokenId> found;
  tree.walk(
      0,
      [&](int at, std::uint8_t byte) {
        const auto i = foredraft::idx(at);
        return i < text.size() && static_cast<std::uint8_t>(text[i]) == byte ? at + 1 : -1;
      },
      [&](foredraft::TokenId token) { found.push_back(token); });
  std::sort(found.begin(), found.end());
  return found;
}

/// A token for each byte.
inline std::vector<std::string> byte_pieces() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  return pieces;
}
