#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foredraft::inline v0 {

/// How the turns of a conversation are marked.
enum class ChatFormat : std::uint8_t {
  kRaw,            ///< not at all: the contents, one after the other
  kChatML,         ///< SmolLM2, Qwen
  kLlama3,         ///< Llama 3
  kGemma,          ///< Gemma, up to 3; no system turn
  kGemma4,         ///< Gemma 4
  kMistralV1,      ///< Mistral 7B v0.1 and v0.2; no system turn, as with the next two
  kMistralV3,      ///< Mistral 7B v0.3
  kMistralTekken,  ///< Mistral Nemo
  kMistralV7,      ///< Mistral Small 3 and later
  kPhi3,           ///< Phi 3, 3.5 and 4 mini
  kPhi4,           ///< Phi 4
  kGranite,        ///< Granite 3
  kTulu,           ///< OLMo 2
};

/// What stands before and behind the contents of each role's turns.
struct ChatMarks {
  ChatFormat format = ChatFormat::kRaw;
  std::string_view name = {};  ///< as the program's option --chat-format spells it
  std::string_view user = {};
  std::string_view user_end = {};
  std::string_view assistant = {};  ///< also where an answer begins
  std::string_view assistant_end = {};
  /// Both empty: a system message goes before the first user's contents, with an empty line between.
  std::string_view system = {};
  std::string_view system_end = {};
  bool alternates = false;  ///< user and assistant take turns, or the template refuses

  constexpr bool system_turns() const noexcept { return !system.empty(); }
};

/// All formats.
/// @source the chat templates of the models named beside ChatFormat
inline constexpr std::array<ChatMarks, 13> kChatMarks{{
    {.format = ChatFormat::kRaw, .name = "raw"},
    {.format = ChatFormat::kChatML,
     .name = "chatml",
     .user = "<|im_start|>user\n",
     .user_end = "<|im_end|>\n",
     .assistant = "<|im_start|>assistant\n",
     .assistant_end = "<|im_end|>\n",
     .system = "<|im_start|>system\n",
     .system_end = "<|im_end|>\n"},
    {.format = ChatFormat::kLlama3,
     .name = "llama3",
     .user = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_end = "<|eot_id|>",
     .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .assistant_end = "<|eot_id|>",
     .system = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_end = "<|eot_id|>"},
    {.format = ChatFormat::kGemma,
     .name = "gemma",
     .user = "<start_of_turn>user\n",
     .user_end = "<end_of_turn>\n",
     .assistant = "<start_of_turn>model\n",
     .assistant_end = "<end_of_turn>\n",
     .alternates = true},
    {.format = ChatFormat::kGemma4,
     .name = "gemma4",
     .user = "<|turn>user\n",
     .user_end = "<turn|>\n",
     .assistant = "<|turn>model\n",
     .assistant_end = "<turn|>\n",
     .system = "<|turn>system\n",
     .system_end = "<turn|>\n"},
    {.format = ChatFormat::kMistralV1,
     .name = "mistral-v1",
     .user = "[INST] ",
     .user_end = " [/INST]",
     .assistant_end = "</s>",
     .alternates = true},
    {.format = ChatFormat::kMistralV3,
     .name = "mistral-v3",
     .user = "[INST] ",
     .user_end = "[/INST]",
     .assistant_end = "</s>",
     .alternates = true},
    {.format = ChatFormat::kMistralTekken,
     .name = "mistral-tekken",
     .user = "[INST]",
     .user_end = "[/INST]",
     .assistant_end = "</s>",
     .alternates = true},
    {.format = ChatFormat::kMistralV7,
     .name = "mistral-v7",
     .user = "[INST]",
     .user_end = "[/INST]",
     .assistant_end = "</s>",
     .system = "[SYSTEM_PROMPT]",
     .system_end = "[/SYSTEM_PROMPT]",
     .alternates = true},
    // Templates of Phi 3 have line breaks behind these, which its tokenizer takes away.
    {.format = ChatFormat::kPhi3,
     .name = "phi3",
     .user = "<|user|>",
     .user_end = "<|end|>",
     .assistant = "<|assistant|>",
     .assistant_end = "<|end|>",
     .system = "<|system|>",
     .system_end = "<|end|>"},
    {.format = ChatFormat::kPhi4,
     .name = "phi4",
     .user = "<|im_start|>user<|im_sep|>",
     .user_end = "<|im_end|>",
     .assistant = "<|im_start|>assistant<|im_sep|>",
     .assistant_end = "<|im_end|>",
     .system = "<|im_start|>system<|im_sep|>",
     .system_end = "<|im_end|>"},
    {.format = ChatFormat::kGranite,
     .name = "granite",
     .user = "<|start_of_role|>user<|end_of_role|>",
     .user_end = "<|end_of_text|>\n",
     .assistant = "<|start_of_role|>assistant<|end_of_role|>",
     .assistant_end = "<|end_of_text|>\n",
     .system = "<|start_of_role|>system<|end_of_role|>",
     .system_end = "<|end_of_text|>\n"},
    {.format = ChatFormat::kTulu,
     .name = "tulu",
     .user = "<|user|>\n",
     .user_end = "\n",
     .assistant = "<|assistant|>\n",
     .assistant_end = "<|endoftext|>\n",
     .system = "<|system|>\n",
     .system_end = "\n"},
}};

constexpr const ChatMarks& marks_of(ChatFormat format) noexcept {
  for (const ChatMarks& marks : kChatMarks) {
    if (marks.format == format) return marks;
  }
  return kChatMarks[0];
}

constexpr std::string_view name_of(ChatFormat format) noexcept { return marks_of(format).name; }

/// The format of a name; nothing where none has it.
constexpr std::optional<ChatFormat> chat_format_of(std::string_view name) noexcept {
  for (const ChatMarks& marks : kChatMarks) {
    if (marks.name == name) return marks.format;
  }
  return std::nullopt;
}

}  // namespace foredraft::inline v0
