#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {
class GgufWriter;
}

/// A model file with random weights, small enough for a test to generate hundreds of tokens.
/// Nothing it says makes sense, but every path through loader, kernels and caches is that of a real
/// one.
struct TinyModel {
  std::string family = "llama";
  foredraft::TensorType type = foredraft::TensorType::kQ4_0;
  int n_layers = 2;
  int n_heads = 6;
  int n_kv_heads = 2;
  int d_head = 16;
  int d_model = 64;
  int d_ff = 96;
  int n_ctx = 2048;
  int window = 8;     // of gemma3 in two layers of three, of gemma2 and gemma4 in every second
  int n_experts = 5;  // of the families qwen3moe and qwen3next, each of d_ff
  int n_used = 2;     // of them, by a row
  bool one_tensor_of_experts = false;  // for gate and up, the same values
  int n_predicting = 0;                // layers at the end that only predict further tokens
  int n_vocab = 307;                   // not a multiple of any vector width
  int n_unused = 0;                    // of them, at the end
  bool tied = true;
  unsigned seed = 1;
  std::vector<std::string> more_vectors = {};  // tensors [d_model] that no layer has
  std::string without = {};                    // a vector that is left out
  std::vector<std::int32_t> suppressed = {};   // tokens that it may not write

  /// The bytes of a GGUF file.
  std::vector<std::byte> file() const;

  /// Families whose layers are a gated delta net and attention in turn.
  bool delta_nets() const { return family == "qwen35" || family == "qwen3next"; }

 private:
  // Of a gated delta net.
  static constexpr int kKeyHeads = 2;
  static constexpr int kHeads = 4;
  static constexpr int kKey = 16;
  static constexpr int kValue = 24;
  static constexpr int kInput = 32;  // of each layer's own embedding

  /// Every second layer of gemma4, and the last.
  bool full_in_gemma4(int layer) const { return layer % 2 == 1 || layer == n_layers - 1; }
  /// Layers at its end that read the keys of earlier ones.
  int shared_in_gemma4() const { return n_layers >= 4 ? 2 : 0; }

  void add_gemma4(foredraft::GgufWriter& writer) const;
  void add_vocabulary(foredraft::GgufWriter& writer) const;
};
