#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/head_tokens.hpp>
#include <foredraft/model/load_options.hpp>
#include <foredraft/model/model.hpp>
#include <foredraft/model/packed_weights.hpp>
#include <foredraft/model/weights.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// read_weights_packed() where it can be.
template <typename B>
ModelWeights<B> read_packed(B& backend, const Gguf& file, const ModelConfig& config,
                            const LoadOptions& options) {
  if (options.requantize || options.head_tokens != 0) {
    throw Error(ErrorCode::kInvalidOption, "packed_files with requantize or head_tokens",
                "weights as the file has them", "leave one of them out");
  }
  if constexpr (MappableMatrix<typename B::Matrix>) {
    return read_weights_packed(backend, file, config, options);
  } else {
    throw Error(ErrorCode::kInvalidOption, "packed_files with a backend that reads none",
                "the backend Cpu", "leave it out");
  }
}

template <typename B>
Model<B> load(B& backend, const Gguf& file, const LoadOptions& options) {
  ModelConfig config = read_config(file);
  Tokenizer tokenizer = Tokenizer::from(file);
  config.n_vocab = static_cast<int>(tokenizer.vocabulary().size());
  std::vector<TokenId> head_tokens;
  if (options.head_tokens != 0) {
    head_tokens =
        most_frequent_tokens(tokenizer.vocabulary(), options.head_tokens, options.token_counts);
  } else if (!options.token_counts.empty()) {
    throw Error(ErrorCode::kInvalidOption, "token_counts without head_tokens",
                "how many tokens to keep by their counts", "set head_tokens");
  }
  ModelWeights<B> weights =
      options.packed_files.empty()
          ? read_weights(backend, file, config, options, std::move(head_tokens))
          : read_packed(backend, file, config, options);
  return Model<B>(backend, std::move(config), std::move(weights), std::move(tokenizer));
}

}  // namespace detail

/// Make a model from an open GGUF file. The file may be closed afterwards: weights are packed into
/// the backend's memory.
/// @errors kUnsupportedModel, kShapeMismatch, kCorruptFile, kOutOfMemory; kInvalidOption and
///   kTokenOutOfRange for options that are out of range or would have no effect
/// @cost one read of the file; with options.packed_files, one read of the packed file
template <typename B>
Model<B> load(B& backend, const Gguf& file, const LoadOptions& options = {}) {
  return or_out_of_memory("a model", [&] { return detail::load(backend, file, options); });
}

/// @errors also kIo
template <typename B>
Model<B> load(B& backend, const std::filesystem::path& file, const LoadOptions& options = {}) {
  return load(backend, Gguf::open(file), options);
}

/// How a model is best loaded that is to draft: its weights in Q4_0 where that makes them smaller,
/// and where its vocabulary is large, a head of the 32768 tokens that are frequent. Of what a token
/// costs less than half is left, and of its acceptance some nine tenths (docs/design/drafting.md).
inline LoadOptions drafting_options(const Gguf& file) {
  constexpr std::size_t kFrequent = 32768;
  LoadOptions options;
  if (detail::shrinks_any(file, TensorType::kQ4_0)) options.requantize = TensorType::kQ4_0;
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (tokens && tokens->size() >= 2 * kFrequent) options.head_tokens = static_cast<int>(kFrequent);
  return options;
}

/// Make a model that is to draft, with drafting_options(). @errors as load
template <typename B>
Model<B> load_draft(B& backend, const std::filesystem::path& file) {
  const Gguf opened = Gguf::open(file);
  return load(backend, opened, drafting_options(opened));
}

}  // namespace foredraft::inline v0
