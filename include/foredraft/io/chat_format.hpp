#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/io/chat_marks.hpp>

namespace foredraft::inline v0 {

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
  /// What the assistant thought, up to `</think>`, is left out of its earlier turns (Qwen 3).
  bool forgets_thoughts = false;
  /// What the template puts behind the mark of the next answer: the beginning of a thought, or an
  /// empty one (Qwen 3.5, Gemma 4).
  std::string opening = {};
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

/// Which of the formats with [INST] a template writes; nothing for Llama 2's, and for those with
/// spaces around a system prompt.
inline std::optional<ChatFormat> mistral_format(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != text.npos; };
  if (!has("[INST]") || !has("[/INST]") || has("<<SYS>>")) return std::nullopt;
  if (has("[SYSTEM_PROMPT]")) {
    if (has("[SYSTEM_PROMPT] ")) return std::nullopt;
    return ChatFormat::kMistralV7;
  }
  if (has("'[INST]'") || has("\"[INST]\"")) return ChatFormat::kMistralTekken;
  return has(" [/INST]") ? ChatFormat::kMistralV1 : ChatFormat::kMistralV3;
}

/// The formats whose marks a template has. More than one: it is another one that looks like them.
inline std::vector<ChatFormat> formats_of(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != text.npos; };
  std::vector<ChatFormat> formats;
  if (has("<|im_start|>") && has("<|im_end|>")) {
    formats.push_back(has("<|im_sep|>") ? ChatFormat::kPhi4 : ChatFormat::kChatML);
  }
  if (has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>")) {
    formats.push_back(ChatFormat::kLlama3);
  }
  if (has("<start_of_turn>") && has("<end_of_turn>")) formats.push_back(ChatFormat::kGemma);
  if (has("<|turn>") && has("<turn|>")) formats.push_back(ChatFormat::kGemma4);
  if (const auto mistral = mistral_format(text)) formats.push_back(*mistral);
  if (has("<|start_of_role|>") && has("<|end_of_role|>")) formats.push_back(ChatFormat::kGranite);
  const bool names = has("<|user|>") && has("<|assistant|>");
  if (has("<|end|>") && (names || has("'<|' + message['role'] + '|>'"))) {
    formats.push_back(ChatFormat::kPhi3);
  }
  // Relatives end a user's turn with more than a line break, which may be one or an escape.
  for (const std::string_view turn :
       {"'<|user|>\n' + message['content'] + '\n'", "'<|user|>\\n' + message['content'] + '\\n'"}) {
    if (names && has(turn)) formats.push_back(ChatFormat::kTulu);
  }
  return formats;
}

/// "raw, chatml, ..."
inline std::string names() {
  std::string all;
  for (const ChatMarks& marks : kChatMarks) {
    if (marks.format == ChatFormat::kRaw) continue;
    all.append(all.empty() ? "" : ", ").append(marks.name);
  }
  return all;
}

/// The literal that begins at the first "<think>" of `text`, up to its quote; empty where there is none.
inline std::string thought_literal(std::string_view text) {
  const std::size_t begin = text.find("<think>");
  const std::size_t end = text.find_first_of("'\"", std::min(begin, text.size()));
  if (end == text.npos) return {};
  std::string literal(text.substr(begin, end - begin));
  for (std::size_t at = 0; (at = literal.find("\\n", at)) != literal.npos;)
    literal.replace(at, 2, "\n");
  return literal;
}

/// What a template writes where an answer begins if the caller chooses nothing. Some always open a
/// thought, in one literal with the mark of the answer. Others ask `enable_thinking`: one that is not
/// defined, or has the default that the template sets. Nothing where neither is recognised.
inline std::string opening_of(std::string_view text) {
  constexpr std::string_view kMark = "<|im_start|>assistant";
  const std::size_t prompt = text.rfind("add_generation_prompt");
  if (prompt == text.npos) return {};
  const std::string_view tail = text.substr(prompt);
  if (const std::size_t mark = tail.find(kMark); mark != tail.npos) {
    std::string_view rest = tail.substr(mark + kMark.size());
    if (rest.starts_with("\\n")) rest.remove_prefix(2);
    if (rest.starts_with("\n")) rest.remove_prefix(1);
    if (rest.starts_with("<think>")) return thought_literal(rest);
  }
  const std::size_t otherwise = tail.find(" else ");
  if (otherwise == tail.npos) return {};
  const std::string_view asked = tail.substr(0, otherwise);
  const auto has = [](std::string_view in, std::string_view part) {
    return in.find(part) != in.npos;
  };
  const bool set_true = has(text, "else True") || has(text, "else true");
  const bool set_false = has(text, "else False") || has(text, "else false");
  if (has(asked, "enable_thinking is ") || (set_false && !set_true)) {
    return thought_literal(tail.substr(otherwise));
  }
  return set_true && !set_false ? thought_literal(asked) : std::string();
}

/// What is said behind the last thought.
inline std::string_view without_thoughts(std::string_view content) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = content.rfind(kEnd);
  return end == content.npos ? content : trimmed(content.substr(end + kEnd.size()));
}

}  // namespace chat_format

/// Recognizes the format from the text of `tokenizer.chat_template`. The template is never run:
/// model files have carried code through template engines.
/// @errors kUnsupportedModel: there is none, or it is none of the known formats
inline ChatTemplate recognize_chat_template(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != text.npos; };
  const std::vector<ChatFormat> formats = chat_format::formats_of(text);
  if (formats.size() != 1) {
    throw Error(ErrorCode::kUnsupportedModel,
                text.empty() ? "no chat template (tokenizer.chat_template)"
                             : "a chat template that is not known: " + in_quotes(text),
                "the turns of one of " + chat_format::names(),
                "name one with --chat-format, or use --raw and write the turns yourself");
  }
  ChatTemplate chat;
  chat.format = formats[0];
  if (chat.format == ChatFormat::kChatML) {
    chat.default_system = chat_format::default_system_of(text);
    chat.forgets_thoughts = has("</think>");
    chat.opening = chat_format::opening_of(text);
  }
  // The date is the template's own default for programs that set none, and the same every day.
  if (chat.format == ChatFormat::kLlama3 && has("Cutting Knowledge Date: December 2023")) {
    chat.system_prefix = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  }
  if (chat.format == ChatFormat::kGemma4) {
    // Models that think unless told otherwise. The line break is one or an escape.
    for (const std::string_view empty_thought :
         {"'<|channel>thought\n<channel|>'", "'<|channel>thought\\n<channel|>'"}) {
      if (has(empty_thought)) chat.opening = "<|channel>thought\n<channel|>";
    }
  }
  // Mistral's trim answers alone.
  chat.trims = (has("| trim") || has("|trim")) && !has("[INST]");
  return chat;
}

/// The conversation as the model was trained on it, up to where the assistant's next turn begins
/// (`generation_prompt`), without BOS: encode it with add_bos and parse_special.
///
/// Contents are put in as they are. Marks of turns in them are read as such by parse_special, as in
/// other engines: do not build conversations with more authority than the least trusted content.
/// Formats without a system turn (ChatMarks) have a system message before the first user's; without
/// one it is left out.
/// @errors kEmptyPrompt: no messages; kInvalidOption: a role that the format does not have, or a
///   system message that is not the first; for some formats (ChatMarks::alternates) also turns that
///   do not alternate, as in their templates
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
  const ChatMarks& marks = marks_of(chat.format);

  // A system message that has no turn of its own is not trimmed.
  std::optional<std::string> system;
  if (!chat.default_system.empty() || !chat.system_prefix.empty()) system = chat.default_system;
  if (messages[0].role == "system") {
    system = marks.system_turns() ? content_of(messages[0].content) : messages[0].content;
    messages = messages.subspan(1);
  }
  std::string before_first;
  if (system && !marks.system_turns()) before_first = *system + "\n\n";
  if (system && marks.system_turns()) {
    out.append(marks.system).append(chat.system_prefix).append(*system).append(marks.system_end);
  }

  const auto last_user =
      std::find_if(messages.rbegin(), messages.rend(),
                   [](const ChatMessage& message) { return message.role == "user"; });
  const std::size_t n_answered = idx(messages.rend() - last_user);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool user = message.role == "user";
    const bool assistant = message.role == "assistant";
    const bool later_system = message.role == "system" && marks.system_turns();
    if (!(user || assistant || later_system) || (marks.alternates && user != (i % 2 == 0))) {
      throw Error(ErrorCode::kInvalidOption, "a message of role " + in_quotes(message.role),
                  marks.alternates ? "user and assistant in turn, behind at most one system message"
                                   : "system, user or assistant");
    }
    std::string_view content = content_of(message.content);
    if (assistant && chat.forgets_thoughts && i < n_answered) {
      content = chat_format::without_thoughts(content);
    }
    out.append(user ? marks.user : assistant ? marks.assistant : marks.system);
    out.append(i == 0 ? before_first : "").append(content);
    out.append(user ? marks.user_end : assistant ? marks.assistant_end : marks.system_end);
  }
  if (generation_prompt) out.append(marks.assistant).append(chat.opening);
  return out;
}

/// What follows an answer in the conversation: the mark that closes it, the user's next message, and
/// the opening of the next answer. So a conversation goes on behind the tokens of its answers as
/// they were generated; to encode their text again may give others.
/// @errors as format_chat; kUnsupportedModel for a format that changes what came before
inline std::string format_reply(const ChatTemplate& chat, std::string_view text) {
  const ChatMessage talk[] = {{"user", "-"}, {"assistant", "-"}, {"user", std::string(text)}};
  ChatTemplate earlier = chat;
  earlier.opening = {};  // which the answer has, or forgets with its thoughts
  const std::string before = format_chat(earlier, std::span(talk).first(1)) + "-";
  const std::string all = format_chat(chat, talk);
  if (!all.starts_with(before)) {
    throw Error(ErrorCode::kUnsupportedModel, "turns that change those before them",
                "a format to which turns are added");
  }
  return all.substr(before.size());
}

}  // namespace foredraft::inline v0
