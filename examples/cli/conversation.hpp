#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/io/chat_format.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "usage.hpp"

namespace cli {

/// The turns of a chat as tokens. An answer stays the tokens that were generated, never its text
/// encoded again, so each prompt begins with all that was read and written before, and only what is
/// new has to be read. Where the format leaves out what was thought in earlier turns, that is cut out of
/// an answer once the next message comes, and what was said behind it is read once more.
class Conversation {
 public:
  /// @param system  message in front; empty: what the format has, if anything
  Conversation(const fd::Tokenizer& tokenizer, fd::ChatTemplate chat, std::string system);

  /// What every conversation begins with, whatever is said.
  std::vector<fd::TokenId> opening() const;

  /// All turns so far, and the user's next message. It is part of the conversation once it was
  /// answered.
  std::vector<fd::TokenId> prompt(const std::string& message) const;
  /// @param tokens  prompt and answer; or what is left of them, where a context was shifted
  void answered(std::span<const fd::TokenId> tokens);

  void reset();
  /// Take the last message and its answer back. @return whether there was one
  bool undo();

  std::span<const fd::TokenId> tokens() const noexcept { return tokens_; }
  /// Lengths in tokens before each turn that undo() can take back.
  const std::vector<std::uint64_t>& turns() const noexcept { return turns_; }
  /// Go on with that of a file. Turns that contradict the tokens cannot be taken back.
  void restore(std::span<const fd::TokenId> tokens, std::vector<std::uint64_t> turns);

 private:
  std::vector<fd::TokenId> encode(std::string_view text, bool begins) const;
  std::string first_turn(const std::string& message) const;
  std::vector<fd::TokenId> settled() const;

  const fd::Tokenizer& tokenizer_;
  fd::ChatTemplate chat_;
  std::string system_;
  std::vector<fd::TokenId> tokens_;
  std::vector<std::uint64_t> turns_;
};

}  // namespace cli
