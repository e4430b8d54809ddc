#include "support/tiny_model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>

#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/gguf_writer.hpp>

#include "backend/cpu/random_matrix.hpp"

namespace {

namespace fd = foredraft;
using fd::TensorType;
using kernels_under_test::FileMatrix;

/// What families differ in.
struct Traits {
  const TinyModel& model;
  bool hybrid = model.delta_nets();
  bool gemma2 = model.family == "gemma2";
  bool gemma3 = model.family == "gemma3";
  bool gemma4 = model.family == "gemma4";
  bool olmo2 = model.family == "olmo2";
  bool fused = model.family == "phi3";
  bool next = model.family == "qwen3next";
  bool mixture = next || model.family == "qwen3moe";
  bool head_norms = gemma3 || gemma4 || mixture || hybrid || model.family == "qwen3";
};

/// Sizes of a gated delta net.
struct DeltaNet {
  int key_heads;
  int heads;
  int key;
  int value;

  int d_values() const { return heads * value; }
  int d_qkv() const { return 2 * key_heads * key + d_values(); }
};

/// What layers of one model differ in.
struct Layer {
  std::string blk;  // what the names of its tensors begin with
  int kv_heads;
  int size;        // of a head
  bool full;       // of gemma4, without a window: its values are made from keys
  bool shares;     // of gemma4, the keys of an earlier one
  bool recurrent;  // a gated delta net
};

/// The numbers of a file.
struct Metadata {
  const TinyModel& model;
  fd::GgufWriter& writer;
  Traits is{model};

  void number(const char* key, int value) const {
    writer.add(model.family + "." + key, static_cast<std::uint32_t>(value));
  }

  void add_sizes() const {
    writer.add("general.architecture", model.family);
    number("block_count", model.n_layers);
    number("context_length", model.n_ctx);
    number("embedding_length", model.d_model);
    number("feed_forward_length", model.d_ff);
    number("attention.head_count", model.n_heads);
    if (!is.gemma4) {
      number("attention.head_count_kv", model.n_kv_heads);
      number("attention.key_length", model.d_head);
      number("attention.value_length", model.d_head);
      number("rope.dimension_count", is.hybrid ? model.d_head / 2 : model.d_head);
    }
    if (model.n_predicting > 0) number("nextn_predict_layers", model.n_predicting);
  }

  void add_delta_net(const DeltaNet& net) const {
    number("full_attention_interval", 2);
    number("ssm.conv_kernel", 4);
    number("ssm.state_size", net.key);
    number("ssm.group_count", net.key_heads);
    number("ssm.time_step_rank", net.heads);
    number("ssm.inner_size", net.d_values());
    number("expert_shared_feed_forward_length", model.d_ff);
  }

  void add_windows_and_factors() const {
    if (is.gemma3) {
      number("attention.sliding_window", model.window);
      number("attention.sliding_window_pattern", 3);
      writer.add("gemma3.rope.freq_base", 1e6f);
    }
    if (is.gemma2) {
      number("attention.sliding_window", model.window);
      writer.add("gemma2.attn_logit_softcapping", 2.0f);
      writer.add("gemma2.final_logit_softcapping", 4.0f);
    }
    if (model.family == "granite") {
      writer.add("granite.embedding_scale", 3.0f);
      writer.add("granite.attention.scale", 0.5f);
      writer.add("granite.residual_scale", 0.4f);
      writer.add("granite.logit_scale", 4.0f);
    }
  }

  void add_experts() const {
    number("expert_count", model.n_experts);
    number("expert_used_count", model.n_used);
    number("expert_feed_forward_length", model.d_ff);
  }
};

/// Random tensors, each with the next seed.
struct Tensors {
  const TinyModel& model;
  fd::GgufWriter& writer;
  DeltaNet net;
  int d_input;  // of each layer's own embedding
  Traits is{model};
  unsigned last_seed = model.seed * 1000;
  std::deque<FileMatrix> kept = {};  // the writer refers to the data

  FileMatrix draw(int n_out, int n_in, TensorType as) {
    return kernels_under_test::random_matrix(as, fd::idx(n_out), fd::idx(n_in), ++last_seed);
  }
  FileMatrix& keep(int n_out, int n_in, TensorType as) {
    return kept.emplace_back(draw(n_out, n_in, as));
  }

  void matrix(const std::string& name, int n_out, int n_in, TensorType as) {
    const FileMatrix& m = keep(n_out, n_in, as);
    writer.add_tensor(name, as, {m.n_in, m.n_out}, m.bytes);
  }
  void matrix(const std::string& name, int n_out, int n_in) {
    matrix(name, n_out, n_in, model.type);
  }
  void vector(const std::string& name, int n) {
    const FileMatrix& m = keep(1, n, TensorType::kF32);
    if (name == model.without) return;
    writer.add_tensor(name, TensorType::kF32, {m.n_in}, m.bytes);
  }
  void constants(const std::string& name, int n, float value) {
    FileMatrix& m = keep(1, n, TensorType::kF32);
    for (int i = 0; i < n; ++i) std::memcpy(&m.bytes[4 * fd::idx(i)], &value, 4);
    writer.add_tensor(name, TensorType::kF32, {m.n_in}, m.bytes);
  }
  void experts(const std::string& name, int n_out, int n_in) {
    const FileMatrix& m = keep(model.n_experts * n_out, n_in, model.type);
    const auto n = fd::idx(model.n_experts);
    writer.add_tensor(name, model.type, {m.n_in, m.n_out / n, n}, m.bytes);
  }
  void gate_and_up(const std::string& name) {
    const FileMatrix gate = draw(model.n_experts * model.d_ff, model.d_model, model.type);
    FileMatrix& both = keep(model.n_experts * model.d_ff, model.d_model, model.type);
    const auto up = both.bytes;
    const auto n = fd::idx(model.n_experts);
    const std::size_t one = up.size() / n;
    both.bytes.clear();
    for (std::size_t at = 0; at < up.size(); at += one) {
      for (const auto* half : {&gate.bytes, &up}) {
        both.bytes.insert(both.bytes.end(), half->begin() + static_cast<std::ptrdiff_t>(at),
                          half->begin() + static_cast<std::ptrdiff_t>(at + one));
      }
    }
    writer.add_tensor(name, model.type, {both.n_in, 2 * both.n_out / n, n}, both.bytes);
  }

  void add_ends() {
    matrix("token_embd.weight", model.n_vocab, model.d_model);
    vector("output_norm.weight", model.d_model);
    if (!model.tied) matrix("output.weight", model.n_vocab, model.d_model);
  }

  /// What gemma4 has outside of its layers.
  void add_inputs() {
    matrix("per_layer_token_embd.weight", model.n_vocab, model.n_layers * d_input);
    matrix("per_layer_model_proj.weight", model.n_layers * d_input, model.d_model);
    vector("per_layer_proj_norm.weight", d_input);
    vector("rope_freqs.weight", model.d_head);  // of heads twice as large, which turn in pairs
    std::vector<float> factors(fd::idx(model.d_head), 1.0f);
    std::fill(factors.begin() + model.d_head / 4, factors.end(), 1e30f);  // a part of each turns
    std::memcpy(kept.back().bytes.data(), factors.data(), kept.back().bytes.size());
  }

  void add_layer(const Layer& layer) {
    if (!is.olmo2) vector(layer.blk + "attn_norm.weight", model.d_model);
    if (layer.recurrent) {
      add_delta_net(layer);
    } else {
      add_attention(layer);
    }
    if (model.family == "qwen2") add_biases(layer);
    const char* const before_ffn = is.hybrid ? "post_attention_norm.weight" : "ffn_norm.weight";
    if (!is.olmo2) vector(layer.blk + before_ffn, model.d_model);
    if (is.mixture) {
      add_mixture(layer);
    } else {
      add_feed_forward(layer);
    }
    if (!layer.recurrent && (is.head_norms || is.olmo2)) add_head_norms(layer);
    if (is.gemma4) add_input(layer);
    if (is.gemma2 || is.gemma3 || is.gemma4 || is.olmo2) {
      vector(layer.blk + "post_attention_norm.weight", model.d_model);
      vector(layer.blk + "post_ffw_norm.weight", model.d_model);
    }
  }

  /// Of the last matrix of either kind of attention, whose input need not fill a block of 256: real
  /// files fall back to blocks of 32 there too.
  TensorType of_output() const {
    return fd::quant_geometry(model.type).elements != 0 ? TensorType::kQ8_0 : model.type;
  }

  void add_delta_net(const Layer& layer) {
    matrix(layer.blk + "attn_qkv.weight", net.d_qkv(), model.d_model);
    matrix(layer.blk + "attn_gate.weight", net.d_values(), model.d_model);
    if (is.next) {
      matrix(layer.blk + "ssm_ba.weight", 2 * net.heads, model.d_model);
    } else {
      matrix(layer.blk + "ssm_beta.weight", net.heads, model.d_model);
      matrix(layer.blk + "ssm_alpha.weight", net.heads, model.d_model);
    }
    matrix(layer.blk + "ssm_conv1d.weight", net.d_qkv(), 4, TensorType::kF32);
    vector(layer.blk + "ssm_dt.bias", net.heads);
    constants(layer.blk + "ssm_a", net.heads, -0.1f);
    vector(layer.blk + "ssm_norm.weight", net.value);
    matrix(layer.blk + "ssm_out.weight", model.d_model, net.d_values(), of_output());
  }

  void add_attention(const Layer& layer) {
    const int d_q = model.n_heads * layer.size;
    const int d_kv = layer.kv_heads * layer.size;
    if (is.fused) {
      matrix(layer.blk + "attn_qkv.weight", d_q + 2 * d_kv, model.d_model);
    } else {
      // With a gate for each query.
      matrix(layer.blk + "attn_q.weight", (is.hybrid ? 2 : 1) * d_q, model.d_model);
      if (!layer.shares) matrix(layer.blk + "attn_k.weight", d_kv, model.d_model);
      if (!layer.shares && !layer.full) matrix(layer.blk + "attn_v.weight", d_kv, model.d_model);
    }
    matrix(layer.blk + "attn_output.weight", model.d_model, d_q, of_output());
  }

  void add_biases(const Layer& layer) {
    vector(layer.blk + "attn_q.bias", model.n_heads * layer.size);
    vector(layer.blk + "attn_k.bias", layer.kv_heads * layer.size);
    vector(layer.blk + "attn_v.bias", layer.kv_heads * layer.size);
  }

  void add_mixture(const Layer& layer) {
    matrix(layer.blk + "ffn_gate_inp.weight", model.n_experts, model.d_model, TensorType::kF32);
    if (model.one_tensor_of_experts) {
      gate_and_up(layer.blk + "ffn_gate_up_exps.weight");
    } else {
      experts(layer.blk + "ffn_gate_exps.weight", model.d_ff, model.d_model);
      experts(layer.blk + "ffn_up_exps.weight", model.d_ff, model.d_model);
    }
    experts(layer.blk + "ffn_down_exps.weight", model.d_model, model.d_ff);
    if (is.next) {
      vector(layer.blk + "ffn_gate_inp_shexp.weight", model.d_model);
      matrix(layer.blk + "ffn_gate_shexp.weight", model.d_ff, model.d_model);
      matrix(layer.blk + "ffn_up_shexp.weight", model.d_ff, model.d_model);
      matrix(layer.blk + "ffn_down_shexp.weight", model.d_model, model.d_ff);
    }
  }

  void add_feed_forward(const Layer& layer) {
    if (!is.fused) matrix(layer.blk + "ffn_gate.weight", model.d_ff, model.d_model);
    matrix(layer.blk + "ffn_up.weight", is.fused ? 2 * model.d_ff : model.d_ff, model.d_model);
    matrix(layer.blk + "ffn_down.weight", model.d_model, model.d_ff);
  }

  void add_head_norms(const Layer& layer) {
    const int size = layer.size;
    vector(layer.blk + "attn_q_norm.weight", is.olmo2 ? model.n_heads * size : size);
    if (layer.shares) return;
    vector(layer.blk + "attn_k_norm.weight", is.olmo2 ? layer.kv_heads * size : size);
  }

  void add_input(const Layer& layer) {
    matrix(layer.blk + "inp_gate.weight", d_input, model.d_model);
    matrix(layer.blk + "proj.weight", model.d_model, d_input);
    vector(layer.blk + "post_norm.weight", model.d_model);
    vector(layer.blk + "layer_output_scale.weight", 1);
  }
};

}  // namespace

std::vector<std::byte> TinyModel::file() const {
  fd::GgufWriter writer;
  const Traits is{*this};
  const DeltaNet net{kKeyHeads, kHeads, kKey, kValue};
  const Metadata metadata{*this, writer};
  metadata.add_sizes();
  if (is.hybrid) metadata.add_delta_net(net);
  metadata.add_windows_and_factors();
  if (is.gemma4) add_gemma4(writer);
  if (is.mixture) metadata.add_experts();
  writer.add(family + ".attention.layer_norm_rms_epsilon", 1e-6f);
  add_vocabulary(writer);

  Tensors tensors{*this, writer, net, kInput};
  tensors.add_ends();
  if (is.gemma4) tensors.add_inputs();
  for (int i = 0; i < n_layers; ++i) {
    const bool full = is.gemma4 && full_in_gemma4(i);
    tensors.add_layer({.blk = "blk." + std::to_string(i) + ".",
                       .kv_heads = full ? 1 : n_kv_heads,
                       .size = full ? 2 * d_head : d_head,
                       .full = full,
                       .shares = is.gemma4 && i >= n_layers - shared_in_gemma4(),
                       .recurrent = is.hybrid && i % 2 == 0});
  }
  for (const std::string& name : more_vectors) tensors.vector(name, d_model);
  return writer.bytes();
}

void TinyModel::add_gemma4(foredraft::GgufWriter& writer) const {
  const auto number = [&](const char* key, int value) {
    writer.add(std::string("gemma4.") + key, static_cast<std::uint32_t>(value));
  };
  std::vector<bool> windows;
  std::vector<std::int32_t> kv_heads;
  for (int i = 0; i < n_layers; ++i) {
    windows.push_back(!full_in_gemma4(i));
    kv_heads.push_back(full_in_gemma4(i) ? 1 : n_kv_heads);
  }
  writer.add_array("gemma4.attention.sliding_window_pattern", windows);
  writer.add_array("gemma4.attention.head_count_kv", kv_heads);
  number("attention.key_length", 2 * d_head);
  number("attention.key_length_swa", d_head);
  number("attention.sliding_window", window);
  number("attention.shared_kv_layers", shared_in_gemma4());
  number("embedding_length_per_layer_input", kInput);
  writer.add("gemma4.rope.freq_base", 1e6f);
  writer.add("gemma4.final_logit_softcapping", 4.0f);
}

void TinyModel::add_vocabulary(foredraft::GgufWriter& writer) const {
  std::vector<std::string> pieces;
  std::vector<std::int32_t> kinds;
  for (int i = 0; i < n_vocab; ++i) {
    const bool byte = i < 256;
    pieces.push_back(byte ? foredraft::kByteAlphabet.write(std::string(1, static_cast<char>(i)))
                          : "<extra_" + std::to_string(i) + ">");
    kinds.push_back(byte ? 1 : i < n_vocab - n_unused ? 3 : 5);  // normal, control, unused
  }
  writer.add("tokenizer.ggml.model", std::string("gpt2"));
  writer.add("tokenizer.ggml.pre", std::string("gpt-2"));
  writer.add_array("tokenizer.ggml.tokens", pieces);
  writer.add_array("tokenizer.ggml.token_type", kinds);
  writer.add_array("tokenizer.ggml.merges", std::vector<std::string>{});
  writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{256});
  if (!suppressed.empty()) writer.add_array("tokenizer.ggml.suppress_tokens", suppressed);
}
