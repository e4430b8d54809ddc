#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How text becomes tokens.
enum class VocabularyType : std::uint8_t {
  kByteLevel,      ///< byte-level pair merges (`gpt2` in GGUF)
  kSentencePiece,  ///< pair merges by score over characters, bytes as fallback (`llama` in GGUF)
  kMergedText,     ///< pair merges by rank over characters, bytes as fallback (`gemma4` in GGUF)
};

/// What a token is for. The numbers are those of `tokenizer.ggml.token_type`.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      ///< a mark for the model, not text
  kUserDefined = 4,  ///< text that is never split
  kUnused = 5,       ///< no meaning: mostly padding up to a round number
  kByte = 6,         ///< one byte, written `<0xNN>`
};

/// Two neighbours that become one token. Earlier merges win.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;

  friend bool operator==(const Merge&, const Merge&) = default;
};

/// A vocabulary as a file spells it; Vocabulary checks it and makes it usable.
struct VocabularyData {
  VocabularyType type = VocabularyType::kByteLevel;
  std::vector<std::string> texts;   // [n_vocab]
  std::vector<TokenKind> kinds;     // [n_vocab], or empty: all normal
  std::vector<float> scores;        // [n_vocab]; kSentencePiece needs them
  std::vector<std::string> merges;  // "left right"; not of kSentencePiece
  std::string pre;                  ///< name of the pre-tokenizer; kByteLevel only
  std::optional<TokenId> bos, eos, eot, eom, unknown, padding;
  bool add_bos = false;
  bool add_space_prefix = false;    ///< kSentencePiece only
  std::vector<TokenId> suppressed;  // that the model may not write
  std::string chat_template;
};

/// U+2581, with which SentencePiece writes a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Names that end a text where a file declares only one of its end tokens. Models for code end a
/// file with the marks for its neighbours, too.
inline constexpr std::array<std::string_view, 21> kEndNames = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<EOT>",
    "_<EOT>",
    "<|end_of_text|>",
    "<|return|>",
    "<|call|>",
    "[EOT]",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

/// The byte that a token such as `<0x0A>` stands for. Exactly this spelling: a lenient parser once
/// turned "<0x-1>" into an index before an array.
/// @errors kCorruptFile
inline unsigned char parse_byte_token(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (text.size() == 6 && text.starts_with("<0x") && text[5] == '>') {
    const int high = digit(text[3]), low = digit(text[4]);
    if (high >= 0 && low >= 0) return static_cast<unsigned char>(16 * high + low);
  }
  throw Error(ErrorCode::kCorruptFile, "byte token " + in_quotes(text), "<0x00> to <0xFF>",
              "the file was converted wrongly: convert it again, or fetch another");
}

}  // namespace foredraft::inline v0
