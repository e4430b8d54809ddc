#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/text_codec.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The target's text in the tokens of another vocabulary, kept up with the target's final tokens.
///
/// Where tokens come behind a text, its last ones may have to change: "hel" becomes part of "hello".
/// So a few are encoded anew each time, from the beginning of a word on where there is one. What is
/// behind a change is not the same as if the whole text were encoded at once; a draft is no worse for
/// it.
/// @cost follow() O(new tokens), some twenty encoded anew, and a comparison of the text; once, and
/// state(), O(text)
class DraftText {
 public:
  DraftText(TextCodec target, TextCodec draft)
      : target_(std::move(target)), draft_(std::move(draft)) {
    clear();
  }

  /// What a text is, without the codecs: to come back to.
  struct State {
    std::vector<TokenId> target_tokens = {};
    std::vector<std::size_t> target_ends = {};  // byte behind each
    std::vector<TokenId> tokens = {};
    std::vector<std::size_t> ends = {};
    std::string bytes = {};
  };

  /// The text is `final` now. @return how many of tokens() are those from before, at the same places
  int follow(std::span<const TokenId> final) {
    const auto& known = s_.target_tokens;
    cut(idx(std::mismatch(final.begin(), final.end(), known.begin(), known.end()).first -
            final.begin()));
    // Where memory runs out on the way, the next cut() takes back what is there too much.
    for (const TokenId token : final.subspan(s_.target_tokens.size())) {
      // The draft model's text begins in its own way.
      if (!s_.target_tokens.empty() || token != target_.bos) s_.bytes += target_.piece(token);
      s_.target_ends.push_back(s_.bytes.size());
      s_.target_tokens.push_back(token);
    }
    return encode_tail();
  }

  /// In the other vocabulary.
  std::span<const TokenId> tokens() const noexcept { return s_.tokens; }
  std::string_view bytes() const noexcept { return s_.bytes; }

  /// Of the first n final tokens, those that the last follow() knew.
  int known(int n) const noexcept { return std::min(n, static_cast<int>(s_.target_tokens.size())); }
  /// Tokens of the other vocabulary that end within the first n final ones.
  int within(int n) const noexcept {
    if (known(n) <= 0) return 0;
    const std::size_t end = s_.target_ends[idx(known(n)) - 1];
    return static_cast<int>(std::upper_bound(s_.ends.begin(), s_.ends.end(), end) -
                            s_.ends.begin());
  }
  /// Bytes of the last `n` final tokens.
  std::string_view tail(std::size_t n) const noexcept {
    const std::size_t size = s_.target_tokens.size();
    const std::size_t begin = n < size ? s_.target_ends[size - n - 1] : 0;
    return std::string_view(s_.bytes).substr(begin);
  }

  const TextCodec& target() const noexcept { return target_; }
  const TextCodec& draft() const noexcept { return draft_; }

  const State& state() const noexcept { return s_; }
  void restore(State state) {
    s_ = std::move(state);
    if (s_.tokens.empty()) clear();
  }

 private:
  static constexpr std::size_t kLookBehind = 8;  // tokens that are encoded anew, at least
  static constexpr std::size_t kLookFurther = 24;

  void clear() {
    s_ = {};
    if (draft_.bos) s_.tokens.push_back(*draft_.bos), s_.ends.push_back(0);
  }

  /// Back to the first n final tokens.
  void cut(std::size_t n) {
    s_.target_tokens.resize(n);
    s_.target_ends.resize(n);
    s_.bytes.resize(n == 0 ? 0 : s_.target_ends.back());
    const auto end = std::upper_bound(s_.ends.begin(), s_.ends.end(), s_.bytes.size());
    s_.ends.erase(end, s_.ends.end());
    s_.tokens.resize(s_.ends.size());
  }

  int encode_tail() {
    const std::size_t first = tail_begin();
    const std::size_t begin = first == 0 ? 0 : s_.ends[first - 1];
    const std::vector<TokenId> fresh = draft_.encode(std::string_view(s_.bytes).substr(begin));
    std::size_t same = 0;
    while (same < fresh.size() && first + same < s_.tokens.size() &&
           fresh[same] == s_.tokens[first + same]) {
      ++same;
    }
    const std::size_t standing = first + same;
    std::size_t end = standing == 0 ? 0 : s_.ends[standing - 1];
    std::vector<std::size_t> fresh_ends(fresh.size());
    for (std::size_t i = same; i < fresh.size(); ++i) {
      fresh_ends[i] = end = std::min(end + draft_.piece(fresh[i]).size(), s_.bytes.size());
    }
    make_room(s_.tokens, standing + fresh.size() - same);
    make_room(s_.ends, standing + fresh.size() - same);
    // Nothing throws from here: tokens that are half replaced would pass for those of before.
    const auto from = static_cast<std::ptrdiff_t>(same);
    s_.tokens.resize(standing);
    s_.ends.resize(standing);
    s_.tokens.insert(s_.tokens.end(), fresh.begin() + from, fresh.end());
    s_.ends.insert(s_.ends.end(), fresh_ends.begin() + from, fresh_ends.end());
    return static_cast<int>(standing);
  }

  template <typename T>
  static void make_room(std::vector<T>& values, std::size_t size) {
    if (size > values.capacity()) values.reserve(2 * size);
  }

  /// The first token to be encoded anew: where a word begins, so that it comes out as before.
  std::size_t tail_begin() const noexcept {
    const std::size_t base = draft_.bos ? 1 : 0;
    const std::size_t size = s_.tokens.size();
    if (size <= base + kLookBehind) return base;
    const std::size_t last = size - kLookBehind;
    const std::size_t furthest = std::max(base, last - std::min(last, kLookFurther));
    for (std::size_t i = last; i > furthest; --i) {
      if (const char c = s_.bytes[s_.ends[i - 1]]; c == ' ' || c == '\n') return i;
    }
    return std::max(furthest, base);
  }

  TextCodec target_;
  TextCodec draft_;
  State s_;
};

}  // namespace foredraft::inline v0
