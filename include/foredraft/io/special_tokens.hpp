#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// Finds tokens that are cut out of a text before it is split: user-defined ones always, control
/// tokens and the like on request. Leftmost first, of those at one place the longest.
///
/// An automaton that recognises the tokens spelled backwards reads the text from its end. Where it
/// has come to a token's first byte, its state knows the longest token that begins there. So a text
/// is read once, whatever the tokens are; forwards, a token `a...ab` would be tried at every `a`.
/// @source Aho and Corasick 1975, doi:10.1145/360825.360855
class SpecialTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id = 0;
  };

  /// `names`: also control tokens and the unknown token. Of equal texts the highest id is found.
  /// @cost O(bytes of these tokens), and sorting them @errors kUnsupportedModel for too many bytes
  SpecialTokens(const Vocabulary& vocabulary, bool names) {
    std::vector<Reversed> tokens;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const TokenKind kind = vocabulary.kind(id);
      const bool name = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
      if (kind != TokenKind::kUserDefined && !(names && name)) continue;
      if (!vocabulary.text(id).empty()) tokens.push_back({vocabulary.text(id), id});
    }
    std::sort(tokens.begin(), tokens.end());
    const auto same = [](const Reversed& a, const Reversed& b) { return a.text == b.text; };
    tokens.erase(std::unique(tokens.begin(), tokens.end(), same), tokens.end());
    if (!tokens.empty()) build(tokens);
  }

  /// Appends all such tokens of a text of less than 4 GiB, in its order, none inside another.
  /// @return states that were looked at, at most twice the bytes @cost O(bytes)
  std::size_t find(std::string_view text, std::vector<Found>& found) const {
    if (nodes_.empty()) return 0;
    std::size_t steps = 0;
    std::vector<Place> places;  // from the end of the text on
    std::uint32_t state = kRoot;
    for (std::size_t begin = text.size(); begin-- > 0;) {
      state = next(state, static_cast<unsigned char>(text[begin]), steps);
      if (nodes_[state].length > 0) places.push_back({static_cast<std::uint32_t>(begin), state});
    }
    std::size_t at = 0;
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
      if (place->begin < at) continue;
      const Node& node = nodes_[place->state];
      found.push_back({place->begin, node.length, node.longest});
      at = place->begin + node.length;
    }
    return steps;
  }

 private:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::size_t kMostNodes = std::size_t{1} << 24;  // real vocabularies: thousands

  struct Place {
    std::uint32_t begin;
    std::uint32_t state;
  };

  /// A token, ordered by its text read backwards; of equal ones the highest id first.
  struct Reversed {
    std::string_view text;
    TokenId id;

    unsigned char byte(std::size_t depth) const noexcept {
      return static_cast<unsigned char>(text[text.size() - 1 - depth]);
    }
    bool operator<(const Reversed& other) const noexcept {
      if (text == other.text) return id > other.id;
      return std::lexicographical_compare(text.rbegin(), text.rend(), other.text.rbegin(),
                                          other.text.rend(),
                                          [](unsigned char a, unsigned char b) { return a < b; });
    }
  };

  /// A state: some end of some token. The longer one end has been read, the deeper the node.
  struct Node {
    std::uint32_t first_child = 0;  // children follow each other, by ascending byte
    std::uint16_t n_children = 0;
    unsigned char byte = 0;     // the one that leads here
    std::uint32_t shorter = 0;  // the state for the longest proper part of this end, from its begin
    TokenId longest = -1;       // token that a text which has come here begins with
    std::uint32_t length = 0;   // of it; 0: none
  };

  /// Breadth first, so that the children of a node lie side by side, and what a node falls back to
  /// is there before it.
  void build(const std::vector<Reversed>& tokens) {
    struct Range {
      std::size_t begin, end, depth;
    };
    std::vector<Range> ranges{{0, tokens.size(), 0}};  // of each node, the tokens that pass it
    nodes_.emplace_back();
    for (std::uint32_t parent = 0; parent < nodes_.size(); ++parent) {
      auto [begin, end, depth] = ranges[parent];
      if (tokens[begin].text.size() == depth) {  // the shortest comes first
        nodes_[parent].longest = tokens[begin].id;
        nodes_[parent].length = static_cast<std::uint32_t>(depth);
        ++begin;
      } else if (parent != kRoot) {
        nodes_[parent].longest = nodes_[nodes_[parent].shorter].longest;
        nodes_[parent].length = nodes_[nodes_[parent].shorter].length;
      }
      nodes_[parent].first_child = static_cast<std::uint32_t>(nodes_.size());
      if (nodes_.size() > kMostNodes) {
        throw Error(ErrorCode::kUnsupportedModel,
                    "a vocabulary with more than " + std::to_string(kMostNodes) +
                        " bytes of tokens that are never split",
                    "some thousand short ones", "choose another model");
      }
      while (begin < end) {
        const unsigned char byte = tokens[begin].byte(depth);
        std::size_t last = begin + 1;
        while (last < end && tokens[last].byte(depth) == byte) ++last;
        std::size_t steps = 0;
        Node child;
        child.byte = byte;
        child.shorter = parent == kRoot ? kRoot : next(nodes_[parent].shorter, byte, steps);
        nodes_.push_back(child);
        ++nodes_[parent].n_children;
        ranges.push_back({begin, last, depth + 1});
        begin = last;
      }
      if (parent == kRoot) {
        for (std::uint32_t child = 1; child < nodes_.size(); ++child) {
          first_[nodes_[child].byte] = child;
        }
      }
    }
  }

  /// The state behind `state` and one more byte. Each step that falls back takes away from the
  /// depth what an earlier byte added to it.
  std::uint32_t next(std::uint32_t state, unsigned char byte, std::size_t& steps) const noexcept {
    for (;; state = nodes_[state].shorter) {
      ++steps;
      if (state == kRoot) return first_[byte];
      const Node* const begin = nodes_.data() + nodes_[state].first_child;
      const Node* const end = begin + nodes_[state].n_children;
      const Node* const child = std::lower_bound(
          begin, end, byte, [](const Node& node, unsigned char b) { return node.byte < b; });
      if (child != end && child->byte == byte) {
        return static_cast<std::uint32_t>(child - nodes_.data());
      }
    }
  }

  std::vector<Node> nodes_;                 // the root first; empty: there are no such tokens
  std::array<std::uint32_t, 256> first_{};  // the root's children by byte; the root: none
};

}  // namespace foredraft::inline v0
