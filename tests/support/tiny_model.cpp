#include "support/tiny_model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>

#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/gguf_writer.hpp>

#include "backend/cpu/random_matrix.hpp"

std::vector<std::byte> TinyModel::file() const {
  using namespace foredraft;
  GgufWriter writer;
  const auto number = [&](const char* key, int value) {
    writer.add(family + "." + key, static_cast<std::uint32_t>(value));
  };
  writer.add("general.architecture", family);
  number("block_count", n_layers);
  number("context_length", n_ctx);
  number("embedding_length", d_model);
  number("feed_forward_length", d_ff);
  number("attention.head_count", n_heads);
  const bool hybrid = delta_nets();
  if (family != "gemma4") {
    number("attention.head_count_kv", n_kv_heads);
    number("attention.key_length", d_head);
    number("attention.value_length", d_head);
    number("rope.dimension_count", hybrid ? d_head / 2 : d_head);
  }
  if (n_predicting > 0) number("nextn_predict_layers", n_predicting);
  if (hybrid) {
    number("full_attention_interval", 2);
    number("ssm.conv_kernel", 4);
    number("ssm.state_size", kKey);
    number("ssm.group_count", kKeyHeads);
    number("ssm.time_step_rank", kHeads);
    number("ssm.inner_size", kHeads * kValue);
    number("expert_shared_feed_forward_length", d_ff);
  }
  const bool gemma3 = family == "gemma3";
  if (gemma3) {
    number("attention.sliding_window", window);
    number("attention.sliding_window_pattern", 3);
    writer.add("gemma3.rope.freq_base", 1e6f);
  }
  const bool gemma2 = family == "gemma2";
  if (gemma2) {
    number("attention.sliding_window", window);
    writer.add("gemma2.attn_logit_softcapping", 2.0f);
    writer.add("gemma2.final_logit_softcapping", 4.0f);
  }
  if (family == "granite") {
    writer.add("granite.embedding_scale", 3.0f);
    writer.add("granite.attention.scale", 0.5f);
    writer.add("granite.residual_scale", 0.4f);
    writer.add("granite.logit_scale", 4.0f);
  }
  const bool gemma4 = family == "gemma4";
  if (gemma4) add_gemma4(writer);
  const bool olmo2 = family == "olmo2";
  const bool fused = family == "phi3";
  const bool next = family == "qwen3next";
  const bool mixture = next || family == "qwen3moe";
  const bool head_norms = gemma3 || gemma4 || mixture || hybrid || family == "qwen3";
  if (mixture) {
    number("expert_count", n_experts);
    number("expert_used_count", n_used);
    number("expert_feed_forward_length", d_ff);
  }
  writer.add(family + ".attention.layer_norm_rms_epsilon", 1e-6f);
  add_vocabulary(writer);

  std::deque<kernels_under_test::FileMatrix> kept;  // the writer refers to the data
  unsigned next_seed = seed * 1000;
  const auto matrix = [&](const std::string& name, int n_out, int n_in, TensorType as) {
    const auto& m = kept.emplace_back(kernels_under_test::random_matrix(
        as, static_cast<std::size_t>(n_out), static_cast<std::size_t>(n_in), ++next_seed));
    writer.add_tensor(name, as, {m.n_in, m.n_out}, m.bytes);
  };
  const auto vector = [&](const std::string& name, int n) {
    const auto& m = kept.emplace_back(kernels_under_test::random_matrix(
        TensorType::kF32, 1, static_cast<std::size_t>(n), ++next_seed));
    if (name == without) return;
    writer.add_tensor(name, TensorType::kF32, {m.n_in}, m.bytes);
  };
  const auto constants = [&](const std::string& name, int n, float value) {
    auto& m = kept.emplace_back(kernels_under_test::random_matrix(
        TensorType::kF32, 1, static_cast<std::size_t>(n), ++next_seed));
    for (int i = 0; i < n; ++i) std::memcpy(&m.bytes[4 * static_cast<std::size_t>(i)], &value, 4);
    writer.add_tensor(name, TensorType::kF32, {m.n_in}, m.bytes);
  };
  const auto experts = [&](const std::string& name, int n_out, int n_in) {
    const auto& m = kept.emplace_back(
        kernels_under_test::random_matrix(type, static_cast<std::size_t>(n_experts * n_out),
                                          static_cast<std::size_t>(n_in), ++next_seed));
    const auto n = static_cast<std::size_t>(n_experts);
    writer.add_tensor(name, type, {m.n_in, m.n_out / n, n}, m.bytes);
  };
  const auto gate_and_up = [&](const std::string& name) {
    const auto draw = [&] {
      return kernels_under_test::random_matrix(type, static_cast<std::size_t>(n_experts * d_ff),
                                               static_cast<std::size_t>(d_model), ++next_seed);
    };
    const auto gate = draw();
    auto& both = kept.emplace_back(draw());
    const auto up = both.bytes;
    const auto n = static_cast<std::size_t>(n_experts);
    const std::size_t one = up.size() / n;
    both.bytes.clear();
    for (std::size_t at = 0; at < up.size(); at += one) {
      for (const auto* half : {&gate.bytes, &up}) {
        both.bytes.insert(both.bytes.end(), half->begin() + static_cast<std::ptrdiff_t>(at),
                          half->begin() + static_cast<std::ptrdiff_t>(at + one));
      }
    }
    writer.add_tensor(name, type, {both.n_in, 2 * both.n_out / n, n}, both.bytes);
  };
  matrix("token_embd.weight", n_vocab, d_model, type);
  vector("output_norm.weight", d_model);
  if (!tied) matrix("output.weight", n_vocab, d_model, type);
  if (gemma4) {
    matrix("per_layer_token_embd.weight", n_vocab, n_layers * kInput, type);
    matrix("per_layer_model_proj.weight", n_layers * kInput, d_model, type);
    vector("per_layer_proj_norm.weight", kInput);
    vector("rope_freqs.weight", d_head);  // of heads twice as large, which turn in pairs
    std::vector<float> factors(static_cast<std::size_t>(d_head), 1.0f);
    std::fill(factors.begin() + d_head / 4, factors.end(), 1e30f);  // a part of each head turns
    std::memcpy(kept.back().bytes.data(), factors.data(), kept.back().bytes.size());
  }
  for (int i = 0; i < n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const bool full = gemma4 && full_in_gemma4(i);
    const bool shares = gemma4 && i >= n_layers - shared_in_gemma4();
    const int kv_heads = full ? 1 : n_kv_heads;
    const int size = full ? 2 * d_head : d_head;  // of a head
    if (!olmo2) vector(layer + "attn_norm.weight", d_model);
    // Its input need not fill a block of 256: real files fall back to blocks of 32 there too.
    const TensorType of_output = quant_geometry(type).elements != 0 ? TensorType::kQ8_0 : type;
    const bool recurrent = hybrid && i % 2 == 0;
    if (recurrent) {
      constexpr int kKeys = 2 * kKeyHeads * kKey;
      matrix(layer + "attn_qkv.weight", kKeys + kHeads * kValue, d_model, type);
      matrix(layer + "attn_gate.weight", kHeads * kValue, d_model, type);
      if (next) {
        matrix(layer + "ssm_ba.weight", 2 * kHeads, d_model, type);
      } else {
        matrix(layer + "ssm_beta.weight", kHeads, d_model, type);
        matrix(layer + "ssm_alpha.weight", kHeads, d_model, type);
      }
      matrix(layer + "ssm_conv1d.weight", kKeys + kHeads * kValue, 4, TensorType::kF32);
      vector(layer + "ssm_dt.bias", kHeads);
      constants(layer + "ssm_a", kHeads, -0.1f);
      vector(layer + "ssm_norm.weight", kValue);
      matrix(layer + "ssm_out.weight", d_model, kHeads * kValue, of_output);
    } else if (fused) {
      matrix(layer + "attn_qkv.weight", (n_heads + 2 * kv_heads) * size, d_model, type);
    } else {
      // With a gate for each query.
      matrix(layer + "attn_q.weight", (hybrid ? 2 : 1) * n_heads * size, d_model, type);
      if (!shares) matrix(layer + "attn_k.weight", kv_heads * size, d_model, type);
      if (!shares && !full) matrix(layer + "attn_v.weight", kv_heads * size, d_model, type);
    }
    if (!recurrent) {
      matrix(layer + "attn_output.weight", d_model, n_heads * size, of_output);
    }
    if (family == "qwen2") {
      vector(layer + "attn_q.bias", n_heads * size);
      vector(layer + "attn_k.bias", kv_heads * size);
      vector(layer + "attn_v.bias", kv_heads * size);
    }
    const char* const before_ffn = hybrid ? "post_attention_norm.weight" : "ffn_norm.weight";
    if (!olmo2) vector(layer + before_ffn, d_model);
    if (mixture) {
      matrix(layer + "ffn_gate_inp.weight", n_experts, d_model, TensorType::kF32);
      if (one_tensor_of_experts) {
        gate_and_up(layer + "ffn_gate_up_exps.weight");
      } else {
        experts(layer + "ffn_gate_exps.weight", d_ff, d_model);
        experts(layer + "ffn_up_exps.weight", d_ff, d_model);
      }
      experts(layer + "ffn_down_exps.weight", d_model, d_ff);
      if (next) {
        vector(layer + "ffn_gate_inp_shexp.weight", d_model);
        matrix(layer + "ffn_gate_shexp.weight", d_ff, d_model, type);
        matrix(layer + "ffn_up_shexp.weight", d_ff, d_model, type);
        matrix(layer + "ffn_down_shexp.weight", d_model, d_ff, type);
      }
    } else {
      if (!fused) matrix(layer + "ffn_gate.weight", d_ff, d_model, type);
      matrix(layer + "ffn_up.weight", fused ? 2 * d_ff : d_ff, d_model, type);
      matrix(layer + "ffn_down.weight", d_model, d_ff, type);
    }
    if (!recurrent && (head_norms || olmo2)) {
      vector(layer + "attn_q_norm.weight", olmo2 ? n_heads * size : size);
      if (!shares) vector(layer + "attn_k_norm.weight", olmo2 ? kv_heads * size : size);
    }
    if (gemma4) {
      matrix(layer + "inp_gate.weight", kInput, d_model, type);
      matrix(layer + "proj.weight", d_model, kInput, type);
      vector(layer + "post_norm.weight", d_model);
      vector(layer + "layer_output_scale.weight", 1);
    }
    if (gemma2 || gemma3 || gemma4 || olmo2) {
      vector(layer + "post_attention_norm.weight", d_model);
      vector(layer + "post_ffw_norm.weight", d_model);
    }
  }
  for (const std::string& name : more_vectors) vector(name, d_model);
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
