#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Bytes for a token that has none in texts, as control tokens have: whoever gives them to a
/// PieceTrie lets a free part hold such tokens, and a trigger be one. No character of UTF-8 begins
/// like any of them, so a constrained part does not let such a token in, and no text ends in one.
inline std::string control_bytes(TokenId token) {
  std::string bytes = "\xFF";
  for (int shift = 30; shift >= 0; shift -= 6) {
    bytes += static_cast<char>(0x80 | (token >> shift & 0x3F));
  }
  return bytes;
}

/// Where a constraint begins in the middle of a text.
struct Trigger {
  /// Any of them; of a control token its control_bytes(). Text behind it is constrained, from the next
  /// byte on, within the token that completes it as well.
  std::vector<std::string> texts = {};
  /// The text must not end before a trigger.
  bool required = false;
  /// Behind a constrained text the answer is free again, up to the next trigger. Else it ends there.
  bool repeat = false;
};

namespace detail {

/// Texts looked for in a stream of bytes, all at once (Aho and Corasick 1975, doi 10.1145/360825.360855):
/// a state is the longest beginning of one of them that the stream ends with.
class TextSearch {
 public:
  using State = int;  // 0: none has begun

  explicit TextSearch(const std::vector<std::string>& texts) : nodes_(1) {
    for (const std::string& text : texts) insert(text);
    std::vector<State> order{0};  // beginnings by their length
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Node& from = nodes_[idx(order[i])];
      for (std::size_t byte = 0; byte < from.next.size(); ++byte) {
        const State otherwise = i == 0 ? 0 : nodes_[idx(from.fallback)].next[byte];
        State& to = nodes_[idx(order[i])].next[byte];
        if (to == 0) {
          to = otherwise;
          continue;
        }
        order.push_back(to);
        nodes_[idx(to)].fallback = otherwise;
        nodes_[idx(to)].found = nodes_[idx(to)].found || nodes_[idx(otherwise)].found;
      }
    }
  }

  int states() const noexcept { return static_cast<int>(nodes_.size()); }
  /// One of the texts ends here.
  bool found(State state) const noexcept { return nodes_[idx(state)].found; }
  State step(State state, unsigned char byte) const { return nodes_[idx(state)].next[byte]; }

 private:
  struct Node {
    std::array<State, 256> next = {};  // by the next byte; 0 begins again
    State fallback = 0;                // of the next shorter beginning
    bool found = false;
  };

  void insert(std::string_view text) {
    State at = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (nodes_[idx(at)].next[byte] == 0) {
        nodes_[idx(at)].next[byte] = states();
        nodes_.emplace_back();
      }
      at = nodes_[idx(at)].next[byte];
    }
    nodes_[idx(at)].found = true;
  }

  std::vector<Node> nodes_;
};

/// Any bytes up to the end of the first of some texts, then `behind`.
/// @param may_end  the text may also end before one of them
inline Grammar::Expression free_until(Grammar& g, const std::vector<std::string>& texts,
                                      Grammar::Expression behind, bool may_end) {
  const TextSearch search(texts);
  std::vector<Grammar::Rule> rules;
  for (int i = 0; i < search.states(); ++i) rules.push_back(g.declare("free"));
  for (int state = 0; state < search.states(); ++state) {
    std::map<int, ByteSet> by_target;
    for (int byte = 0; byte < 256; ++byte) {
      by_target[search.step(state, static_cast<unsigned char>(byte))].set(idx(byte));
    }
    std::vector<Grammar::Expression> ways;
    if (may_end) ways.push_back(g.text(""));
    for (const auto& [target, bytes] : by_target) {
      ways.push_back(
          g.sequence({g.bytes(bytes), search.found(target) ? behind : g.call(rules[idx(target)])}));
    }
    g.define(rules[idx(state)], g.either(std::move(ways)));
  }
  return g.call(rules[0]);
}

inline void check_triggers(const std::vector<std::string>& texts) {
  constexpr std::size_t kMostBytes = 4096;  // a state for each
  std::size_t bytes = 0;
  bool empty = texts.empty();
  for (const std::string& text : texts) empty = empty || text.empty(), bytes += text.size();
  if (!empty && bytes <= kMostBytes) return;
  throw Error(ErrorCode::kInvalidConstraint, empty ? "a trigger without text" : "long triggers",
              "texts of at most " + std::to_string(kMostBytes) + " bytes together, none empty");
}

}  // namespace detail

/// Free text up to a trigger, and behind it a text of `grammar`: a tool call, say. That is a grammar
/// as well, so nothing else has to know: where the text stands is part of the state of each node of a
/// draft, and a trigger may be drafted, accepted or rejected like any other text.
/// @errors kInvalidConstraint where a trigger is empty, or there is none
inline Grammar triggered_grammar(Grammar grammar, const Trigger& trigger) {
  detail::check_triggers(trigger.texts);
  Grammar& g = grammar;
  Grammar::Expression behind = g.call(g.root());
  if (trigger.repeat) {
    const Grammar::Rule again = g.declare("constrained, then free");
    const auto free = detail::free_until(g, trigger.texts, g.call(again), true);
    g.define(again, g.sequence({behind, free}));
    behind = g.call(again);
  }
  const auto text = detail::free_until(g, trigger.texts, behind, !trigger.required);
  g.set_root(g.rule("free up to a trigger", text));
  return grammar;
}

/// A text of `grammar`, before which the model may think: free text between `open` and `close`, then
/// at most a few blanks.
/// @param open  empty: the prompt has opened the thinking part, so that the answer begins within it
/// @errors kInvalidConstraint where `close` is empty
inline Grammar behind_thinking(Grammar grammar, const std::string& open, const std::string& close) {
  constexpr int kMostBlanks = 4;
  detail::check_triggers({close});
  Grammar& g = grammar;
  ByteSet blank;
  for (const char c : {' ', '\n'}) blank.set(static_cast<unsigned char>(c));
  const auto blanks = g.repeat(g.bytes(blank), 0, kMostBlanks);
  const Grammar::Expression answer = g.call(g.root());
  const auto answered = g.call(g.rule("answer", g.sequence({blanks, answer})));
  auto text = detail::free_until(g, {close}, answered, false);
  if (!open.empty()) text = g.either({answer, g.sequence({blanks, g.text(open), text})});
  g.set_root(g.rule("thoughts and answer", text));
  return grammar;
}

}  // namespace foredraft::inline v0
