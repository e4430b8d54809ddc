#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/vocabulary.hpp>
#include <foredraft/io/vocabulary_data.hpp>

namespace foredraft::inline v0 {

namespace vocabulary_reader {

inline std::vector<std::string> strings(const Gguf& file, std::string_view key) {
  const auto found = file.get_strings(key);
  if (!found) return {};
  return std::vector<std::string>(found->begin(), found->end());
}

/// An id must fit before it can be compared with the size of the vocabulary.
inline std::optional<TokenId> id(const Gguf& file, std::string_view key, std::size_t n_vocab) {
  const auto found = file.get_uint(key);
  if (!found) return std::nullopt;
  if (*found < n_vocab) return static_cast<TokenId>(*found);
  throw Error(ErrorCode::kTokenOutOfRange, std::string(key) + " = " + std::to_string(*found),
              "less than the " + std::to_string(n_vocab) + " tokens of the vocabulary",
              "the file was converted wrongly: convert it again, or fetch another");
}

/// Arrays are copied out of the file, so what they announce is held to what it can be before.
inline void require_count(const Gguf& file, std::string_view key, std::uint64_t least,
                          std::uint64_t most) {
  const GgufValue* const value = file.find(key);
  if (value == nullptr || !value->is_array() || value->count == 0) return;  // like no such key
  if (value->count >= least && value->count <= most) return;
  throw Error(ErrorCode::kCorruptFile,
              std::string(key) + " of " + std::to_string(value->count) + " elements",
              least == most ? std::to_string(most) + ", one for each token"
                            : std::to_string(least) + " to " + std::to_string(most),
              "the file was converted wrongly: convert it again, or fetch another");
}

inline std::vector<TokenKind> kinds(const Gguf& file) {
  std::vector<TokenKind> kinds;
  for (const std::int64_t number :
       file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>())) {
    if (number < 1 || number > 6) {
      throw Error(ErrorCode::kCorruptFile, "token type " + std::to_string(number), "1 to 6",
                  "the file is damaged, or was converted wrongly");
    }
    kinds.push_back(static_cast<TokenKind>(number));
  }
  return kinds;
}

inline VocabularyType type(const Gguf& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (model == "gpt2") return VocabularyType::kByteLevel;
  if (model == "llama") return VocabularyType::kSentencePiece;
  if (model == "gemma4") return VocabularyType::kMergedText;
  throw Error(ErrorCode::kUnsupportedModel,
              model ? "tokenizer " + in_quotes(*model) : "no tokenizer (tokenizer.ggml.model)",
              "gpt2, llama or gemma4", "choose a model of another family");
}

inline VocabularyData data_of(const Gguf& file) {
  constexpr auto kMost = std::uint64_t{Dim::kMost};
  VocabularyData data;
  data.type = type(file);
  require_count(file, "tokenizer.ggml.tokens", 0, kMost);
  data.texts = strings(file, "tokenizer.ggml.tokens");
  require_count(file, "tokenizer.ggml.token_type", data.texts.size(), data.texts.size());
  require_count(file, "tokenizer.ggml.scores", data.texts.size(), data.texts.size());
  require_count(file, "tokenizer.ggml.merges", 0, kMost);
  data.kinds = kinds(file);
  data.scores = file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>());
  data.pre = std::string(file.get_string("tokenizer.ggml.pre").value_or(""));
  data.chat_template = std::string(file.get_string("tokenizer.chat_template").value_or(""));

  const auto id_of = [&](std::string_view name) {
    return id(file, "tokenizer.ggml." + std::string(name) + "_token_id", data.texts.size());
  };
  data.bos = id_of("bos");
  data.eos = id_of("eos");
  data.eot = id_of("eot");
  data.eom = id_of("eom");
  data.unknown = id_of("unknown");
  data.padding = id_of("padding");

  require_count(file, "tokenizer.ggml.suppress_tokens", 0, data.texts.size());
  const auto suppressed = file.get_ints("tokenizer.ggml.suppress_tokens");
  for (const std::int64_t id : suppressed.value_or(std::vector<std::int64_t>())) {
    if (id < 0 || idx(id) >= data.texts.size()) {
      throw Error(ErrorCode::kTokenOutOfRange, "a suppressed token " + std::to_string(id),
                  "0 to " + std::to_string(data.texts.size() - 1),
                  "the file was converted wrongly: convert it again, or fetch another");
    }
    data.suppressed.push_back(static_cast<TokenId>(id));
  }

  const bool sentence_piece = data.type == VocabularyType::kSentencePiece;
  if (!sentence_piece) data.merges = strings(file, "tokenizer.ggml.merges");
  const bool usually_bos = data.bos && (data.type != VocabularyType::kByteLevel ||
                                        data.pre == "llama-bpe" || data.pre == "tekken");
  data.add_bos = file.get_bool("tokenizer.ggml.add_bos_token").value_or(usually_bos);
  data.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix").value_or(sentence_piece);
  return data;
}

}  // namespace vocabulary_reader

/// The vocabulary in the metadata of a model file.
///
/// Defaults where a file says nothing: SentencePiece adds BOS (if it has one) and a space before
/// the text; merged text adds BOS alone; byte-level does neither, but for `llama-bpe` and `tekken`,
/// which add BOS.
/// @errors kUnsupportedModel: another kind of tokenizer; kCorruptFile, kTokenOutOfRange: see
/// Vocabulary; kOutOfMemory
inline Vocabulary read_vocabulary(const Gguf& file) {
  return or_out_of_memory("the vocabulary",
                          [&file] { return Vocabulary(vocabulary_reader::data_of(file)); });
}

}  // namespace foredraft::inline v0
