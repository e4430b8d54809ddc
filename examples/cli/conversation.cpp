#include "conversation.hpp"

#include <algorithm>
#include <utility>

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

std::vector<fd::TokenId> Conversation::prompt(const std::string& message) const {
  if (tokens_.empty()) return encode(first_turn(message), true);
  std::vector<fd::TokenId> all = tokens_;
  const auto reply = encode(fd::format_reply(chat_, message), false);
  // The answer may have closed itself, with the mark of the format or with another end token.
  const bool ended = tokenizer_.is_end(all.back());
  if (ended && (reply.empty() || reply.front() != all.back())) all.pop_back();
  const bool closed = ended && all.size() == tokens_.size();
  all.insert(all.end(), reply.begin() + (closed ? 1 : 0), reply.end());
  return all;
}

void Conversation::answered(std::span<const fd::TokenId> tokens) {
  const bool whole =
      tokens.size() >= tokens_.size() && std::equal(tokens_.begin(), tokens_.end(), tokens.begin());
  // A closing mark in place of another end token is no difference that matters.
  const bool but_end = !tokens_.empty() && tokens.size() >= tokens_.size() &&
                       std::equal(tokens_.begin(), tokens_.end() - 1, tokens.begin());
  if (whole || but_end) {
    turns_.push_back(tokens_.size());
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
  tokens_.resize(static_cast<std::size_t>(turns_.back()));
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
