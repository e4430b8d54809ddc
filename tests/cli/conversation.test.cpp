#include "conversation.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

fd::ChatTemplate chatml(bool forgets_thoughts, const std::string& opening) {
  fd::ChatTemplate chat;
  chat.format = fd::ChatFormat::kChatML;
  chat.forgets_thoughts = forgets_thoughts;
  chat.opening = opening;
  return chat;
}

/// With a model whose format leaves thoughts out of earlier turns, or not.
struct Talk {
  explicit Talk(bool forgets_thoughts = true, const std::string& opening = {})
      : conversation(tokenizer, chatml(forgets_thoughts, opening), "") {}

  fd::VocabularyData data = toy::byte_level({});
  fd::TokenId start = toy::add(data, "<|im_start|>", fd::TokenKind::kControl);
  fd::TokenId end = toy::add(data, "<|im_end|>", fd::TokenKind::kControl);
  fd::TokenId open = toy::add(data, "<think>", fd::TokenKind::kUserDefined);
  fd::TokenId close = toy::add(data, "</think>", fd::TokenKind::kUserDefined);
  fd::Tokenizer tokenizer{fd::Vocabulary(data)};
  cli::Conversation conversation;

  Tokens encoded(const std::string& text) const {
    return tokenizer.encode(text, {.parse_special = true});
  }
  std::string text(std::span<const fd::TokenId> tokens) const {
    return tokenizer.decode(tokens, true);
  }
  /// A message is answered by that text. @return the prompt
  std::string turn(const std::string& message, const std::string& answer) {
    Tokens all = conversation.prompt(message);
    const std::string prompt = text(all);
    const Tokens written = encoded(answer);
    all.insert(all.end(), written.begin(), written.end());
    conversation.answered(all);
    return prompt;
  }
};

const std::string kHi = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
const std::string kBye = "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n";

}  // namespace

TEST_CASE("a prompt goes on behind the answers as they were written") {
  Talk talk(false);
  CHECK(talk.turn("Hi", "<think>\nWho?\n</think>\n\nHello.<|im_end|>") == kHi);
  CHECK(talk.text(talk.conversation.prompt("Bye")) ==
        kHi + "<think>\nWho?\n</think>\n\nHello." + kBye);
}
TEST_CASE("what was thought is left out once the next message comes") {
  Talk talk;
  talk.turn("Hi", "<think>\nWho?\n</think>\n\nHello.<|im_end|>");
  CHECK(talk.text(talk.conversation.tokens()).find("Who?") != std::string::npos);
  CHECK(talk.turn("Bye", "<think>\nOh.\n</think>\n\nBye.<|im_end|>") == kHi + "Hello." + kBye);
  CHECK(talk.text(talk.conversation.prompt("Bye")) == kHi + "Hello." + kBye + "Bye." + kBye);
}
TEST_CASE("the prompt's beginning of a thought is left out with it") {
  for (const std::string opening : {"<think>\n", "<think>\n\n</think>\n\n"}) {
    CAPTURE(opening);
    Talk talk(true, opening);
    const bool thinks = opening.find("</think>") == std::string::npos;
    CHECK(talk.turn("Hi", thinks ? "Who?\n</think>\n\nHello.<|im_end|>" : "Hello.<|im_end|>") ==
          kHi + opening);
    CHECK(talk.text(talk.conversation.prompt("Bye")) == kHi + "Hello." + kBye + opening);
  }
}
TEST_CASE("a thought that did not end stays, and so does a message that quotes its mark") {
  Talk talk;
  talk.turn("Hi", "<think>\nWho");
  CHECK(talk.text(talk.conversation.prompt("Bye")) == kHi + "<think>\nWho" + kBye);
  talk.conversation.reset();
  CHECK(talk.turn("What is </think>?", "A mark.<|im_end|>") ==
        "<|im_start|>user\nWhat is </think>?<|im_end|>\n<|im_start|>assistant\n");
  CHECK(talk.text(talk.conversation.prompt("Bye")) ==
        "<|im_start|>user\nWhat is </think>?<|im_end|>\n<|im_start|>assistant\nA mark." + kBye);
}
TEST_CASE("turns are taken back one by one, thoughts or not") {
  Talk talk;
  talk.turn("Hi", "<think>\nWho?\n</think>\n\nHello.<|im_end|>");
  talk.turn("Bye", "<think>\nOh.\n</think>\n\nBye.<|im_end|>");
  REQUIRE(talk.conversation.turns().size() == 2);
  CHECK(talk.conversation.undo());
  CHECK(talk.text(talk.conversation.tokens()) == kHi + "Hello.<|im_end|>");
  CHECK(talk.text(talk.conversation.prompt("Bye")) == kHi + "Hello." + kBye);
  CHECK(talk.conversation.undo());
  CHECK(talk.conversation.tokens().empty());
  CHECK_FALSE(talk.conversation.undo());
}
TEST_CASE("where a context was shifted nothing can be taken back") {
  Talk talk;
  talk.turn("Hi", "Hello.<|im_end|>");
  talk.conversation.answered(talk.encoded("llo.<|im_end|>\n"));
  CHECK(talk.conversation.turns().empty());
}
