#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/quoted.hpp>

namespace foredraft::inline v0 {

/// What the decoder template has to know of a model beyond its weights. One family differs from
/// another in these values and in which tensors exist, not in code.
struct ModelConfig {
  std::string family;  ///< as `general.architecture` spells it
  Dim n_vocab = 0;
  Dim n_ctx = 0;  ///< positions it was trained for
  Dim n_layers = 0;
  Dim n_heads = 0;
  Dim n_kv_heads = 0;
  Dim d_model = 0;
  Dim d_head = 0;
  Dim d_q = 0;   ///< n_heads * d_head
  Dim d_kv = 0;  ///< n_kv_heads * d_head
  Dim d_ff = 0;
  float norm_epsilon = 1e-5f;
  RopeKind rope = RopeKind::kAdjacent;
  Dim n_rot = 0;
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

  /// The one way from a number of a file to a size.
  Dim dimension(std::string_view key, std::optional<int> otherwise = {},
                int most = Dim::kMost) const {
    const std::string name = family_ + "." + std::string(key);
    const auto value = file_.get_uint(name);
    if (!value && otherwise) return *otherwise;
    if (!value || *value == 0 || *value > static_cast<std::uint64_t>(most)) {
      throw Error(ErrorCode::kCorruptFile,
                  value ? name + " = " + std::to_string(*value) : "no " + name,
                  "a value from 1 to " + std::to_string(most), kDamaged);
    }
    return static_cast<int>(*value);
  }

  /// All heads of one kind, side by side.
  static Dim all_heads(Dim n_heads, Dim d_head) {
    if (const auto width = checked_product(n_heads, d_head)) return *width;
    throw Error(ErrorCode::kCorruptFile,
                std::to_string(n_heads) + " heads of " + std::to_string(d_head) + " dimensions",
                "at most " + std::to_string(Dim::kMost) + " dimensions in all", kDamaged);
  }

  double number(std::string_view key, double otherwise) const {
    return file_.get_float(family_ + "." + std::string(key)).value_or(otherwise);
  }

  bool flag(std::string_view key, bool otherwise) const {
    return file_.get_bool(family_ + "." + std::string(key)).value_or(otherwise);
  }

  double positive(std::string_view key, double otherwise) const {
    const std::string name = family_ + "." + std::string(key);
    const double value = number(key, otherwise);
    if (std::isfinite(value) && value > 0) return value;
    throw Error(ErrorCode::kCorruptFile, name + " = " + std::to_string(value),
                "a finite value above 0", "the file is damaged");
  }

  float epsilon(std::string_view key, double otherwise) const {
    const double value = positive(key, otherwise);
    if (value <= 1 && static_cast<float>(value) > 0) return static_cast<float>(value);
    std::ostringstream found;
    found << family_ << '.' << key << " = " << value;
    throw Error(ErrorCode::kCorruptFile, found.str(), "a float above 0, at most 1", kDamaged);
  }

  std::optional<std::string_view> text(std::string_view key) const {
    return file_.get_string(family_ + "." + std::string(key));
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& value,
                           const std::string& expected) const {
    throw Error(ErrorCode::kUnsupportedModel, family_ + "." + std::string(key) + " = " + value,
                expected, "this version leaves that step out, so its text would be wrong");
  }

 private:
  static constexpr std::string_view kDamaged = "the file is damaged or not a language model";

  const Gguf& file_;
  std::string family_;
};

inline void require(bool holds, const std::string& found, const std::string& expected) {
  if (!holds) throw Error(ErrorCode::kCorruptFile, found, expected, "the file is damaged");
}

/// A file that holds something else than one whole language model.
inline void refuse_other_files(const Gguf& file) {
  const std::string_view type = file.get_string("general.type").value_or("model");
  if (type != "model") {
    throw Error(ErrorCode::kUnsupportedModel, "a file of type " + in_quotes(type),
                "a language model", "give the model that it belongs to");
  }
  const std::uint64_t parts = file.get_uint("split.count").value_or(1);
  if (parts > 1) {
    throw Error(ErrorCode::kUnsupportedModel,
                "one of " + std::to_string(parts) + " parts of a model",
                "the whole model in one file", "join the parts: llama-gguf-split --merge");
  }
}

/// Metadata that changes what a decoder computes in ways that this one does not know. Left unread
/// it would give text that looks whole and is wrong.
/// @source GGUF specification, and the keys that llama.cpp reads for any family
inline void refuse_unknown_steps(const ConfigReader& reader, const ModelConfig& config) {
  struct Step {
    std::string_view key;
    double neutral;  // beside 0, which stands for "none" in all of them
  };
  const Step steps[] = {
      {"attn_logit_softcapping", 0},
      {"final_logit_softcapping", 0},
      {"logit_scale", 1},
      {"embedding_scale", 1},
      {"residual_scale", 1},
      {"attention.scale", 1 / std::sqrt(static_cast<double>(config.d_head))},
      {"attention.clamp_kqv", 0},
      {"attention.max_alibi_bias", 0},
      {"rope.scaling.attn_factor", 1},
  };
  for (const auto& [key, neutral] : steps) {
    const double value = reader.number(key, neutral);
    // Files hold floats: 1 / sqrt(d_head) need not be the nearest double.
    if (value == 0 || std::abs(value - neutral) <= 1e-6 * neutral) continue;
    reader.refuse(key, std::to_string(value),
                  neutral == 0 ? "0, or no such key" : std::to_string(neutral));
  }
  const double window = reader.number("attention.sliding_window", 0);
  if (window != 0 && !(window >= config.n_ctx)) {
    reader.refuse("attention.sliding_window", std::to_string(window),
                  "attention to the whole context of " + std::to_string(config.n_ctx));
  }
  if (!reader.flag("attention.causal", true)) {
    reader.refuse("attention.causal", "false", "a model that reads from left to right");
  }
  if (reader.flag("use_parallel_residual", false)) {
    reader.refuse("use_parallel_residual", "true", "attention before the feed-forward part");
  }
}

/// Factor on the positions. A factor without a type has no meaning that all programs share: some
/// take it as linear, others leave it unread.
inline double read_rope_scale(const ConfigReader& reader) {
  const auto type = reader.text("rope.scaling.type");
  if (type == "linear") return 1.0 / reader.positive("rope.scaling.factor", 1.0);
  if (type && type != "none") {
    throw Error(ErrorCode::kUnsupportedModel, "rope scaling " + in_quotes(*type), "none or linear",
                "take a model that was trained for its context without it");
  }
  if (type) return 1.0;
  for (const std::string_view key : {"rope.scaling.factor", "rope.scale_linear"}) {
    const double factor = reader.number(key, 1.0);
    if (factor != 0 && factor != 1) {
      reader.refuse(key, std::to_string(factor), "rope.scaling.type beside it, or the value 1");
    }
  }
  return 1.0;
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
  detail::refuse_other_files(file);
  ModelConfig config;
  config.family = std::string(*architecture);
  if (config.family != "llama" && config.family != "qwen2") {
    throw Error(ErrorCode::kUnsupportedModel, "model family " + in_quotes(config.family),
                "llama or qwen2", "choose a model of one of these families");
  }
  const detail::ConfigReader reader(file, config.family);
  // First of all: such files may lack the dimensions of a dense model.
  if (reader.number("expert_count", 0) > 0) {
    throw Error(ErrorCode::kUnsupportedModel, "a mixture of experts", "a dense model",
                "choose a model without \"MoE\" or \"8x\" in its name");
  }
  config.n_layers = reader.dimension("block_count");
  config.n_ctx = reader.dimension("context_length");
  config.d_model = reader.dimension("embedding_length");
  config.d_ff = reader.dimension("feed_forward_length");
  config.n_heads = reader.dimension("attention.head_count");
  config.n_kv_heads = reader.dimension("attention.head_count_kv", config.n_heads);
  config.d_head = reader.dimension(
      "attention.key_length", std::clamp(config.d_model / config.n_heads, 1, kMostHead), kMostHead);
  config.d_q = reader.all_heads(config.n_heads, config.d_head);
  config.d_kv = reader.all_heads(config.n_kv_heads, config.d_head);
  config.n_rot = reader.dimension("rope.dimension_count", config.d_head);
  config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-5);
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

  config.rope_scale = detail::read_rope_scale(reader);
  detail::refuse_unknown_steps(reader, config);
  return config;
}

}  // namespace foredraft::inline v0
