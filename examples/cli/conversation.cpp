#include "conversation.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include <foredraft/core/index.hpp>
#include <foredraft/io/chat_marks.hpp>

#include "thinking.hpp"

namespace cli {

Conversation::Conversation(const fd::Tokenizer& tokenizer, fd::ChatTemplate chat,
                           std::string system)
    : tokenizer_(tokenizer), chat_(std::move(chat)), system_(std::move(system)) {}

std::vector<fd::TokenId> Conversation::encode(std::string_view text, bool begins) const {
  return tokenizer_.encode(text, {.add_bos = begins, .parse_special = true});
}

std::string Conversation::first_turn(const std::string& message) const {
  std::vector<fd::ChatMessage> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  messages.push_back({"user", message});
  return fd::format_chat(chat_, messages);
}

std::vector<fd::TokenId> Conversation::opening() const {
  // What two conversations share that begin with different letters.
  const auto one = encode(first_turn("a"), true);
  const auto other = encode(first_turn("Z"), true);
  return {one.begin(), std::ranges::mismatch(one, other).in1};
}

/// The turns as later ones see them: all that stands between the mark of the last answer and what
/// is said behind its thoughts may be gone. Thoughts whose marks are no tokens of their own are not
/// found, and stay.
std::vector<fd::TokenId> Conversation::settled() const {
  const ThinkingMarkers* const thinking = thinking_markers(tokenizer_);
  if (!chat_.forgets_thoughts || thinking == nullptr) return tokens_;
  const auto mark = encode(fd::marks_of(chat_.format).assistant, false);
  const auto close = tokenizer_.encode(thinking->close, {.parse_special = true, .continues = true});
  const auto marked = std::ranges::find_end(tokens_, mark);
  if (mark.empty() || marked.empty()) return tokens_;
  const auto answer = std::ranges::subrange(marked.end(), tokens_.end());
  const auto closed = std::ranges::find_end(answer, close);
  if (closed.empty()) return tokens_;
  const auto said = std::find_if(closed.end(), tokens_.end(), [this](fd::TokenId token) {
    return !fd::chat_format::trimmed(tokenizer_.piece(token, true)).empty();
  });
  std::vector<fd::TokenId> rest(tokens_.begin(), answer.begin());
  rest.insert(rest.end(), said, tokens_.end());
  return rest;
}

std::vector<fd::TokenId> Conversation::prompt(const std::string& message) const {
  if (tokens_.empty()) return encode(first_turn(message), true);
  std::vector<fd::TokenId> all = settled();
  const auto reply = encode(fd::format_reply(chat_, message), false);
  // The answer may have closed itself, with the mark of the format or with another end token.
  const bool ended = tokenizer_.is_end(all.back());
  const bool closed = ended && !reply.empty() && reply.front() == all.back();
  if (ended && !closed) all.pop_back();
  all.insert(all.end(), reply.begin() + (closed ? 1 : 0), reply.end());
  return all;
}

void Conversation::answered(std::span<const fd::TokenId> tokens) {
  const std::vector<fd::TokenId> before = settled();
  // A closing mark in place of another end token is no difference that matters.
  const auto kept = std::span(before).first(before.empty() ? 0 : before.size() - 1);
  if (tokens.size() >= before.size() && std::ranges::equal(kept, tokens.first(kept.size()))) {
    turns_.push_back(before.size());
  } else {
    turns_.clear();  // what came before is not there any more
  }
  tokens_.assign(tokens.begin(), tokens.end());
}

void Conversation::reset() {
  tokens_.clear();
  turns_.clear();
}

bool Conversation::undo() {
  if (turns_.empty()) return false;
  tokens_.resize(fd::idx(turns_.back()));
  turns_.pop_back();
  return true;
}

void Conversation::restore(std::span<const fd::TokenId> tokens, std::vector<std::uint64_t> turns) {
  tokens_.assign(tokens.begin(), tokens.end());
  turns_ = std::move(turns);
  const bool possible =
      std::ranges::is_sorted(turns_) && (turns_.empty() || turns_.back() < tokens_.size());
  if (!possible) turns_.clear();
}

}  // namespace cli
