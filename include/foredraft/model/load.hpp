#pragma once

#include <filesystem>
#include <string>

#include <foredraft/backend/backend.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/model.hpp>
#include <foredraft/model/weights.hpp>

namespace foredraft::inline v0 {

/// Make a model from an open GGUF file. The file may be closed afterwards: weights are packed into
/// the backend's memory.
/// @errors kUnsupportedModel, kShapeMismatch, kCorruptFile, kOutOfMemory
/// @cost one read of the file
template <typename B>
Model<B> load(B& backend, const Gguf& file, const LoadProgress& progress = {}) {
  ModelConfig config = read_config(file);
  Tokenizer tokenizer = Tokenizer::from(file);
  config.n_vocab = static_cast<int>(tokenizer.vocabulary().size());
  ModelWeights<B> weights = read_weights(backend, file, config, progress);
  return Model<B>(backend, std::move(config), std::move(weights), std::move(tokenizer));
}

/// @errors also kIo
template <typename B>
Model<B> load(B& backend, const std::filesystem::path& file, const LoadProgress& progress = {}) {
  return load(backend, Gguf::open(file), progress);
}

}  // namespace foredraft::inline v0
