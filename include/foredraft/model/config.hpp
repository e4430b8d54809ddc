#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/gguf.hpp>

namespace foredraft::inline v0 {

/// What the decoder template has to know of a model beyond its weights. One family differs from
/// another in these values and in which tensors exist, not in code.
struct ModelConfig {
  std::string family;  ///< as `general.architecture` spells it
  int n_vocab = 0;
  int n_ctx = 0;  ///< positions it was trained for
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int d_model = 0;
  int d_head = 0;
  int d_ff = 0;
  float norm_epsilon = 1e-5f;
  RopeKind rope = RopeKind::kAdjacent;
  int n_rot = 0;
  double rope_base = 10000.0;
  double rope_scale = 1.0;  ///< positions are multiplied by it (linear scaling)
  Activation activation = Activation::kSilu;

  CacheShape cache_shape() const noexcept { return {n_layers, n_kv_heads, d_head, n_ctx}; }
};

namespace detail {

/// Reads `family.key` values and holds them to what a decoder can be.
class ConfigReader {
 public:
  ConfigReader(const Gguf& file, std::string family) : file_(file), family_(std::move(family)) {}

  int dimension(std::string_view key, std::optional<int> otherwise = {}) const {
    const std::string name = family_ + "." + std::string(key);
    const auto value = file_.get_uint(name);
    if (!value && otherwise) return *otherwise;
    // No real dimension comes near the limit; products of two of them still fit 64 bits.
    constexpr std::uint64_t kMost = 1u << 26;
    if (!value || *value == 0 || *value > kMost) {
      throw Error(ErrorCode::kCorruptFile,
                  value ? name + " = " + std::to_string(*value) : "no " + name,
                  "a value from 1 to " + std::to_string(kMost),
                  "the file is damaged or not a language model");
    }
    return static_cast<int>(*value);
  }

  double positive(std::string_view key, double otherwise) const {
    const std::string name = family_ + "." + std::string(key);
    const double value = file_.get_float(name).value_or(otherwise);
    if (std::isfinite(value) && value > 0) return value;
    throw Error(ErrorCode::kCorruptFile, name + " = " + std::to_string(value),
                "a finite value above 0", "the file is damaged");
  }

  std::optional<std::string_view> text(std::string_view key) const {
    return file_.get_string(family_ + "." + std::string(key));
  }

  bool has(std::string_view key) const {
    return file_.find(family_ + "." + std::string(key)) != nullptr;
  }

 private:
  const Gguf& file_;
  std::string family_;
};

inline void require(bool holds, const std::string& found, const std::string& expected) {
  if (!holds) throw Error(ErrorCode::kCorruptFile, found, expected, "the file is damaged");
}

}  // namespace detail

/// Read a model's configuration.
/// @errors kUnsupportedModel for a family or a variant that this version cannot run; kCorruptFile
inline ModelConfig read_config(const Gguf& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) {
    throw Error(ErrorCode::kUnsupportedModel, "no general.architecture", "a language model",
                "is this a tokenizer, an adapter or a projector file?");
  }
  ModelConfig config;
  config.family = std::string(*architecture);
  if (config.family != "llama" && config.family != "qwen2") {
    throw Error(ErrorCode::kUnsupportedModel, "model family '" + config.family + "'",
                "llama or qwen2", "`foredraft inspect` shows what the file holds");
  }
  const detail::ConfigReader reader(file, config.family);
  if (reader.has("expert_count") &&
      file.get_uint(config.family + ".expert_count").value_or(0) > 0) {
    throw Error(ErrorCode::kUnsupportedModel, "a mixture of experts", "a dense model", "");
  }
  config.n_layers = reader.dimension("block_count");
  config.n_ctx = reader.dimension("context_length");
  config.d_model = reader.dimension("embedding_length");
  config.d_ff = reader.dimension("feed_forward_length");
  config.n_heads = reader.dimension("attention.head_count");
  config.n_kv_heads = reader.dimension("attention.head_count_kv", config.n_heads);
  config.d_head =
      reader.dimension("attention.key_length", std::max(1, config.d_model / config.n_heads));
  config.n_rot = reader.dimension("rope.dimension_count", config.d_head);
  config.norm_epsilon =
      static_cast<float>(reader.positive("attention.layer_norm_rms_epsilon", 1e-5));
  config.rope_base = reader.positive("rope.freq_base", 10000.0);
  config.rope = config.family == "qwen2" ? RopeKind::kHalves : RopeKind::kAdjacent;

  detail::require(
      config.n_heads % config.n_kv_heads == 0,
      std::to_string(config.n_heads) + " heads, " + std::to_string(config.n_kv_heads) + " KV heads",
      "a multiple");
  detail::require(config.n_rot % 2 == 0 && config.n_rot <= config.d_head,
                  "rope.dimension_count " + std::to_string(config.n_rot),
                  "an even number up to the head's " + std::to_string(config.d_head));
  detail::require(reader.dimension("attention.value_length", config.d_head) == config.d_head,
                  "heads of keys and values that differ in size", "equal sizes");

  const std::string_view scaling = reader.text("rope.scaling.type").value_or("none");
  if (scaling == "linear") {
    config.rope_scale = 1.0 / reader.positive("rope.scaling.factor", 1.0);
  } else if (scaling != "none") {
    throw Error(ErrorCode::kUnsupportedModel, "rope scaling '" + std::string(scaling) + "'",
                "none or linear", "");
  }
  return config;
}

}  // namespace foredraft::inline v0
