// Fuzzing chat formats: any text as a template, any text as a conversation.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/io/chat_format.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"
#include "fuzz/fuzz_main.hpp"

namespace {

namespace fd = foredraft;

/// What templates are made of, one part of them as often as a file has room for: what is quadratic
/// takes too long.
std::string any_template(fuzz::Choices& choices) {
  static constexpr std::string_view kParts[] = {"<|im_start|>",
                                                "<|im_end|>",
                                                "<|im_sep|>",
                                                "system",
                                                "\n",
                                                "\\n",
                                                "<|start_header_id|>",
                                                "<|end_header_id|>",
                                                "<|eot_id|>",
                                                "Cutting Knowledge Date: December 2023",
                                                "<start_of_turn>",
                                                "<end_of_turn>",
                                                "[INST]",
                                                " [/INST]",
                                                "[SYSTEM_PROMPT]",
                                                "<|user|>",
                                                "<|assistant|>",
                                                "<|end|>",
                                                "<|start_of_role|>",
                                                "<|end_of_role|>",
                                                "</think>",
                                                "| trim",
                                                "'",
                                                "{{ content }}",
                                                "<|im_start|>system\n",
                                                "You are a helper.",
                                                "<",
                                                "add_generation_prompt",
                                                " else ",
                                                "<think>\\n"};
  const std::size_t repeated = choices.below(256);
  std::string text;
  for (std::size_t n = choices.below(24); n > 0; --n) {
    const std::string part =
        choices.once_in(8) ? choices.text(16) : std::string(choices.pick(kParts));
    for (std::size_t i = n == repeated ? 1 << 14 : 1; i > 0; --i) text += part;
  }
  return text;
}

std::optional<fd::ChatTemplate> recognized(std::string_view text) {
  try {
    return fd::recognize_chat_template(text);
  } catch (const fd::Error& e) {
    fuzz::demand(e.code() == fd::ErrorCode::kUnsupportedModel, "another error for a template");
    return std::nullopt;
  }
}

std::vector<fd::ChatMessage> any_conversation(fuzz::Choices& choices) {
  static constexpr std::string_view kRoles[] = {"user", "assistant", "system", "tool", ""};
  std::vector<fd::ChatMessage> messages(choices.below(6));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool usual = !choices.once_in(4);
    messages[i].role = usual ? kRoles[i % 2] : choices.pick(kRoles);
    messages[i].content = choices.text(24);
  }
  return messages;
}

void format(const fd::ChatTemplate& chat, const std::vector<fd::ChatMessage>& messages,
            bool generation_prompt) {
  std::string text;
  try {
    text = fd::format_chat(chat, messages, generation_prompt);
  } catch (const fd::Error&) {
    return;
  }
  // Templates without a system turn, too, lose a system message that no user message follows.
  const bool has_system = fd::marks_of(chat.format).system_turns();
  if (chat.format != fd::ChatFormat::kRaw && !has_system && messages.size() == 1) return;
  // Every content stands in it, in order, and the rest is marks.
  std::size_t at = 0, contents = 0;
  for (const fd::ChatMessage& message : messages) {
    if (chat.forgets_thoughts && message.content.find("</think>") != std::string::npos) return;
    // Gemma's first user message stands behind a system message that is not trimmed.
    const std::string_view content = fd::chat_format::trimmed(message.content);
    at = text.find(content, at);
    fuzz::demand(at != text.npos, "a message is missing");
    at += content.size();
    contents += message.content.size();
  }
  constexpr std::size_t kMostMarks = 64;  // of one turn: the longest takes 57 bytes
  fuzz::demand(text.size() <= contents + (messages.size() + 2) * kMostMarks +
                                  chat.default_system.size() + 2 * chat.system_prefix.size() +
                                  chat.opening.size(),
               "a conversation that grew");
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  const bool raw = choices.once_in(8);
  const auto chat = raw ? fd::ChatTemplate{} : recognized(any_template(choices));
  if (!chat) return false;
  const auto messages = any_conversation(choices);
  format(*chat, messages, choices.flag());
  return true;
}

std::vector<fuzz::Bytes> fuzz::seeds() { return noise(32, 200); }
