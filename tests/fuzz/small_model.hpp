#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf_writer.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "fuzz/choices.hpp"

namespace fuzz {

/// A model file whose every number is a choice. Choices of 0 give a small model that runs; others
/// contradict themselves, or stand where arithmetic turns over.
class SmallModel {
 public:
  explicit SmallModel(Choices& choices) : choices_(choices) {}

  std::vector<std::byte> file() {
    static constexpr std::string_view kFamilies[] = {"llama", "qwen2", "gemma3", "gemma", ""};
    family_ = choices_.pick(kFamilies);
    static constexpr TensorType kTypes[] = {TensorType::kF32,  TensorType::kQ4_0, TensorType::kQ8_0,
                                            TensorType::kF16,  TensorType::kBF16, TensorType::kQ5_1,
                                            TensorType::kQ6_K, TensorType::kQ4_K};
    type_ = choices_.pick(kTypes);
    wild_ = choices_.once_in(8);
    wraps_ = choices_.once_in(4);
    choose_dimensions();
    add_metadata();
    add_vocabulary();
    add_tensors();
    return writer_.bytes();
  }

 private:
  using GgufWriter = foredraft::GgufWriter;
  using TensorType = foredraft::TensorType;

  /// Of one tensor. The largest shapes are wrong ones, whose data need not be there.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 18;

  static constexpr std::uint64_t kSmall[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 65, 96, 128};
  static constexpr std::uint64_t kHostile[] = {
      0,          (1u << 15) - 1, 1u << 15,    65535,          65536,    65537,          65538,
      1u << 20,   1u << 22,       1u << 24,    (1u << 26) - 1, 1u << 26, (1u << 26) + 1, 0x7fffffff,
      0x80000000, 0xffffffff,     0x100000000, ~0ull >> 1,     ~0ull};

  std::uint64_t small() { return choices_.pick(kSmall); }

  /// Always two decisions, so that one does not shift all that follow.
  std::uint64_t dimension(std::uint64_t usual) {
    const std::size_t kind = choices_.below(8);
    const std::size_t which = choices_.below(256);
    if (kind == 7) return kHostile[which % std::size(kHostile)];
    return kind >= 5 ? kSmall[which % std::size(kSmall)] : usual;
  }

  void choose_dimensions() {
    const bool k_quant = type_ == TensorType::kQ6_K || type_ == TensorType::kQ4_K;
    const std::uint64_t usual = k_quant ? 256 : 32;
    n_layers_ = dimension(1);
    n_heads_ = dimension(2);
    n_kv_heads_ = dimension(1);
    d_head_ = dimension(choices_.flag() ? 64 : 16);  // 64: what a quantized cache can hold
    d_model_ = dimension(usual);
    d_ff_ = dimension(usual);
    n_rot_ = dimension(d_head_);
    n_ctx_ = dimension(64);
    n_vocab_ = choices_.once_in(4) ? 1 + choices_.below(300) : 5;
  }

  /// A whole number in a type that can hold it, or in another.
  void number(const std::string& key, std::uint64_t value) {
    const std::string name = family_ + "." + key;
    switch (choices_.below(32)) {
      case 25: return;  // not there at all
      case 26: return writer_.add(name, value);
      case 27: return writer_.add(name, static_cast<std::int32_t>(value));
      case 28: return writer_.add(name, static_cast<std::int64_t>(value));
      case 29: return writer_.add(name, static_cast<std::uint8_t>(value));
      case 30: return writer_.add(name, static_cast<float>(value));
      case 31: return writer_.add(name, std::to_string(value));
      default: break;
    }
    if (value <= 0xffffffff) return writer_.add(name, static_cast<std::uint32_t>(value));
    writer_.add(name, value);
  }

  void real(const std::string& key, double usual) {
    static constexpr double kReals[] = {
        0, -1, 1, 2, 1e-45, 1e-300, 1e38, 1e300, 1e-10, 0.125, 18446744073709551616.0};
    const std::string name = family_ + "." + key;
    switch (choices_.below(16)) {
      case 11: return;
      case 12: return writer_.add(name, choices_.pick(kReals));
      case 13: return writer_.add(name, static_cast<float>(choices_.pick(kReals)));
      case 14: return writer_.add(name, choices_.take<double>());
      case 15: return writer_.add(name, choices_.take<std::int64_t>());
      default: return writer_.add(name, static_cast<float>(usual));
    }
  }

  void add_metadata() {
    writer_.add("general.architecture", family_);
    if (family_.empty()) family_ = "llama";
    number("block_count", n_layers_);
    number("context_length", n_ctx_);
    number("embedding_length", d_model_);
    number("feed_forward_length", d_ff_);
    number("attention.head_count", n_heads_);
    number("attention.head_count_kv", n_kv_heads_);
    number("attention.key_length", d_head_);
    number("attention.value_length", choices_.once_in(16) ? small() : d_head_);
    number("rope.dimension_count", n_rot_);
    real("attention.layer_norm_rms_epsilon", 1e-6);
    real("rope.freq_base", 10000);
    if (family_ == "gemma3") number("attention.sliding_window", dimension(4));
    while (choices_.once_in(4)) add_rare_key();
  }

  /// Keys that most files lack.
  void add_rare_key() {
    static constexpr std::string_view kReals[] = {
        "expert_count",        "attn_logit_softcapping",   "logit_scale",
        "attention.scale",     "attention.max_alibi_bias", "rope.scaling.attn_factor",
        "rope.scaling.factor", "attention.sliding_window", "rope.scale_linear"};
    static constexpr std::string_view kScalings[] = {"linear", "none", "yarn"};
    const std::string name(choices_.pick(kReals));
    const std::size_t kind = choices_.below(5);
    try {
      if (kind == 0) real(name, 1);
      if (kind == 1)
        writer_.add(family_ + ".rope.scaling.type", std::string(choices_.pick(kScalings)));
      if (kind == 2) writer_.add(family_ + ".attention.causal", choices_.flag());
      if (kind == 3) writer_.add("split.count", choices_.take<std::int16_t>());
      if (kind == 4)
        writer_.add("general.type", std::string(choices_.flag() ? "model" : "adapter"));
    } catch (const foredraft::Error&) {
      // The key is there already.
    }
  }

  void add_vocabulary() {
    std::vector<std::string> pieces;
    for (std::size_t i = 0; i < n_vocab_; ++i) pieces.push_back("t" + std::to_string(i));
    writer_.add("tokenizer.ggml.model", std::string("gpt2"));
    writer_.add("tokenizer.ggml.pre", std::string("gpt-2"));
    writer_.add_array("tokenizer.ggml.tokens", pieces);
    writer_.add("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  }

  /// As a loader that counts in 32 bits would see it.
  std::uint64_t product(std::uint64_t a, std::uint64_t b) const {
    return wraps_ ? static_cast<std::uint32_t>(a * b) : a * b;
  }

  void add_tensors() {
    matrix("token_embd.weight", n_vocab_, d_model_);
    vector("output_norm.weight", d_model_);
    if (choices_.flag()) matrix("output.weight", n_vocab_, d_model_);
    if (choices_.once_in(16)) vector("rope_freqs.weight", n_rot_ / 2);
    const std::uint64_t q = product(n_heads_, d_head_);
    const std::uint64_t kv = product(n_kv_heads_, d_head_);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(n_layers_, 3); ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      vector(layer + "attn_norm.weight", d_model_);
      matrix(layer + "attn_q.weight", q, d_model_);
      matrix(layer + "attn_k.weight", kv, d_model_);
      matrix(layer + "attn_v.weight", kv, d_model_);
      matrix(layer + "attn_output.weight", d_model_, q);
      if (choices_.once_in(4)) vector(layer + "attn_q.bias", q);
      if (choices_.once_in(4)) vector(layer + "attn_k.bias", kv);
      if (choices_.once_in(4)) vector(layer + "attn_v.bias", kv);
      vector(layer + "ffn_norm.weight", d_model_);
      matrix(layer + "ffn_gate.weight", d_ff_, d_model_);
      matrix(layer + "ffn_up.weight", d_ff_, d_model_);
      matrix(layer + "ffn_down.weight", d_model_, d_ff_);
      if (family_ != "gemma3") continue;
      vector(layer + "attn_q_norm.weight", d_head_);
      vector(layer + "attn_k_norm.weight", d_head_);
      vector(layer + "post_attention_norm.weight", d_model_);
      vector(layer + "post_ffw_norm.weight", d_model_);
    }
  }

  void vector(const std::string& name, std::uint64_t n) { tensor(name, TensorType::kF32, {n}); }

  /// In the model's type where its rows are whole blocks of it.
  void matrix(const std::string& name, std::uint64_t n_out, std::uint64_t n_in) {
    const bool whole = n_in % foredraft::layout_of(type_)->elements == 0;
    tensor(name, whole ? type_ : TensorType::kF32, {n_in, n_out});
  }

  void tensor(const std::string& name, TensorType type, std::vector<std::uint64_t> shape) {
    if (choices_.once_in(64)) return;  // missing
    if (choices_.once_in(64)) shape[0] = small();
    if (choices_.once_in(64)) shape.push_back(small());
    try {
      const auto size = foredraft::data_bytes({name, type, 0, shape, 0, {}});
      if (!size || *size > kMostBytes) return;
      writer_.add_tensor(name, type, shape, data(type).first(foredraft::idx(*size)));
    } catch (const foredraft::Error&) {
      // A shape that no file can hold.
    }
  }

  /// kMostBytes of weights, or of noise that need not be any.
  std::span<const std::byte> data(TensorType type) const {
    static std::map<std::pair<TensorType, bool>, std::vector<std::byte>> all;
    std::vector<std::byte>& bytes = all[{type, wild_}];
    if (!bytes.empty()) return bytes;
    if (wild_) {
      bytes.resize(kMostBytes);
      std::mt19937 random(1);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    } else {
      constexpr std::size_t kRow = 256;  // whole blocks of every format
      const std::size_t rows = kMostBytes / *foredraft::row_bytes(type, kRow) + 1;
      bytes = kernels_under_test::random_matrix(type, rows, kRow, 1).bytes;
    }
    return bytes;
  }

  Choices& choices_;
  GgufWriter writer_;
  std::string family_;
  TensorType type_ = TensorType::kF32;
  bool wild_ = false;   // weights of any bits, NaN among them
  bool wraps_ = false;  // shapes follow products modulo 2^32
  std::uint64_t n_layers_ = 1, n_heads_ = 1, n_kv_heads_ = 1, d_head_ = 1, d_model_ = 1, d_ff_ = 1;
  std::uint64_t n_rot_ = 1, n_ctx_ = 1;
  std::size_t n_vocab_ = 1;
};

inline std::vector<std::byte> small_model(std::span<const std::byte> choices) {
  Choices list(choices);
  return SmallModel(list).file();
}

}  // namespace fuzz
