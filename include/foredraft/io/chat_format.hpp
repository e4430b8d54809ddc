#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>

namespace foredraft::inline v0 {

/// How the turns of a conversation are marked.
enum class ChatFormat : std::uint8_t {
  kRaw,     ///< not at all: the contents, one after the other
  kChatML,  ///< `<|im_start|>role` ... `<|im_end|>` (SmolLM2, Qwen)
  kLlama3,  ///< `<|start_header_id|>role<|end_header_id|>` ... `<|eot_id|>`
  kGemma,   ///< `<start_of_turn>role` ... `<end_of_turn>`; no system turn
};

constexpr std::string_view name_of(ChatFormat format) noexcept {
  switch (format) {
    case ChatFormat::kRaw: return "raw";
    case ChatFormat::kChatML: return "chatml";
    case ChatFormat::kLlama3: return "llama3";
    case ChatFormat::kGemma: return "gemma";
  }
  return "unknown";
}

/// One turn. Roles are "system", "user" and "assistant".
struct ChatMessage {
  std::string role;
  std::string content;
};

/// A format with what a model's own template adds to it.
///
/// SmolLM2-Instruct and Qwen2.5 have a system message for conversations without one: "You are a
/// helpful AI assistant named SmolLM, trained by Hugging Face", "You are Qwen, created by Alibaba
/// Cloud. You are a helpful assistant.". Llama 3.1 and later put a cutoff date and a date before
/// every system message.
struct ChatTemplate {
  ChatFormat format = ChatFormat::kRaw;
  std::string default_system;  ///< empty: no system turn unless the conversation has one
  std::string system_prefix;   ///< not empty: there is always a system turn, which begins with this
  bool trims = false;          ///< white space around contents is taken away
};

namespace chat_format {

inline constexpr std::string_view kClose = "<|im_end|>";

/// Where a literal ends that begins at `begin`: at a quote or the like, at kClose, or with the text.
inline std::size_t end_of_literal(std::string_view text, std::size_t begin) {
  for (;; ++begin) {
    begin = std::min(text.find_first_of("'\"{}\\<", begin), text.size());
    if (begin == text.size() || text[begin] != '<' || text.substr(begin).starts_with(kClose)) {
      return begin;
    }
  }
}

/// A default system message stands in a template as one literal from the opening of a system turn
/// to its end; with a quote in between, the content comes from the conversation.
/// @cost O(bytes)
inline std::string default_system_of(std::string_view text) {
  constexpr std::string_view kOpen = "<|im_start|>system";
  for (std::size_t at = text.find(kOpen); at != text.npos;) {
    std::size_t begin = at + kOpen.size();
    std::size_t end = begin;
    // The line break is one in SmolLM2's template and an escape in Qwen's.
    for (const std::string_view line_break : {"\n", "\\n"}) {
      if (!text.substr(begin).starts_with(line_break)) continue;
      begin += line_break.size();
      end = end_of_literal(text, begin);
      if (text.substr(end).starts_with(kClose)) return std::string(text.substr(begin, end - begin));
      break;
    }
    at = text.find(kOpen, end);  // one before would have the same end
  }
  return {};
}

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

}  // namespace chat_format

/// Recognizes the format from the text of `tokenizer.chat_template`. The template is never run:
/// model files have carried code through template engines.
/// @errors kUnsupportedModel: there is none, or it is none of the known formats
inline ChatTemplate recognize_chat_template(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != text.npos; };
  ChatTemplate chat;
  int formats = 0;
  // <|im_sep|> is a relative of ChatML with other turns.
  if (has("<|im_start|>") && has("<|im_end|>") && !has("<|im_sep|>")) {
    chat.format = ChatFormat::kChatML;
    chat.default_system = chat_format::default_system_of(text);
    ++formats;
  }
  if (has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>")) {
    chat.format = ChatFormat::kLlama3;
    // The date is the template's own default for programs that set none, and the same every day.
    if (has("Cutting Knowledge Date: December 2023")) {
      chat.system_prefix = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    }
    ++formats;
  }
  if (has("<start_of_turn>") && has("<end_of_turn>")) {
    chat.format = ChatFormat::kGemma;
    ++formats;
  }
  if (formats != 1) {
    throw Error(ErrorCode::kUnsupportedModel,
                text.empty() ? "no chat template (tokenizer.chat_template)"
                             : "a chat template that is not known: " + in_quotes(text),
                "the turns of chatml, llama3 or gemma",
                "name one with --chat-format, or use --raw and write the turns yourself");
  }
  chat.trims = has("| trim") || has("|trim");
  return chat;
}

/// The conversation as the model was trained on it, up to where the assistant's next turn begins
/// (`generation_prompt`), without BOS: encode it with add_bos and parse_special.
///
/// Contents are put in as they are. Marks of turns in them are read as such by parse_special, as in
/// other engines: do not build conversations with more authority than the least trusted content.
/// kGemma puts a system message before the first user's; without one it is left out, as its template
/// does.
/// @errors kEmptyPrompt: no messages; kInvalidOption: a role that the format does not have, or a
///   system message that is not the first; for kGemma also turns that do not alternate, as in its
///   template
inline std::string format_chat(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                               bool generation_prompt = true) {
  if (messages.empty()) throw Error(ErrorCode::kEmptyPrompt, "no messages", "at least one");
  const auto content_of = [&](std::string_view text) {
    return chat.trims ? chat_format::trimmed(text) : text;
  };
  std::string out;
  if (chat.format == ChatFormat::kRaw) {
    for (const ChatMessage& message : messages) out += message.content;
    return out;
  }
  const auto open = [&](std::string_view role) {
    if (chat.format == ChatFormat::kChatML) out.append("<|im_start|>").append(role).append("\n");
    if (chat.format == ChatFormat::kLlama3) {
      out.append("<|start_header_id|>").append(role).append("<|end_header_id|>\n\n");
    }
    if (chat.format == ChatFormat::kGemma) {
      out.append("<start_of_turn>").append(role == "assistant" ? "model" : role).append("\n");
    }
  };
  const auto close = [&] {
    if (chat.format == ChatFormat::kChatML) out += "<|im_end|>\n";
    if (chat.format == ChatFormat::kLlama3) out += "<|eot_id|>";
    if (chat.format == ChatFormat::kGemma) out += "<end_of_turn>\n";
  };

  // The system message first. Gemma knows none: it goes before the first user message, and is not
  // trimmed.
  std::optional<std::string> system;
  if (!chat.default_system.empty() || !chat.system_prefix.empty()) system = chat.default_system;
  if (messages[0].role == "system") {
    system =
        chat.format == ChatFormat::kGemma ? messages[0].content : content_of(messages[0].content);
    messages = messages.subspan(1);
  }
  std::string before_first;
  if (system && chat.format == ChatFormat::kGemma) {
    before_first = *system + "\n\n";
  } else if (system) {
    open("system");
    out.append(chat.system_prefix).append(*system);
    close();
  }

  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool known =
        message.role == "user" || message.role == "assistant" || message.role == "system";
    const bool alternates = message.role == (i % 2 == 0 ? "user" : "assistant");
    if (!known || (chat.format == ChatFormat::kGemma && !alternates)) {
      throw Error(ErrorCode::kInvalidOption, "a message of role " + in_quotes(message.role),
                  "system, user or assistant; for gemma user and assistant in turn");
    }
    open(message.role);
    out.append(i == 0 ? before_first : "").append(content_of(message.content));
    close();
  }
  if (generation_prompt) open("assistant");
  return out;
}

/// What follows an answer in the conversation: the mark that closes it, the user's next message, and
/// the opening of the next answer. So a conversation goes on behind the tokens of its answers as
/// they were generated; to encode their text again may give others.
/// @errors as format_chat; kUnsupportedModel for a format that changes what came before
inline std::string format_reply(const ChatTemplate& chat, std::string_view text) {
  const ChatMessage talk[] = {{"user", "-"}, {"assistant", "-"}, {"user", std::string(text)}};
  const std::string before = format_chat(chat, std::span(talk).first(1)) + "-";
  const std::string all = format_chat(chat, talk);
  if (!all.starts_with(before)) {
    throw Error(ErrorCode::kUnsupportedModel, "turns that change those before them",
                "a format to which turns are added");
  }
  return all.substr(before.size());
}

}  // namespace foredraft::inline v0
