#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/config.hpp>

namespace foredraft::inline v0 {

/// Weights of one decoder layer, in the backend's own format.
template <typename B>
struct LayerWeights {
  using Matrix = typename B::Matrix;
  using Vector = std::vector<float>;

  Vector attn_norm;  // [d_model]
  Matrix wq;         // [n_heads * d_head, d_model]
  Matrix wk;         // [n_kv_heads * d_head, d_model]
  Matrix wv;         // [n_kv_heads * d_head, d_model]
  Matrix wo;         // [d_model, n_heads * d_head]
  Vector q_bias;     // [n_heads * d_head] or empty
  Vector k_bias;     // [n_kv_heads * d_head] or empty
  Vector v_bias;     // [n_kv_heads * d_head] or empty
  Vector ffn_norm;   // [d_model]
  Matrix gate;       // [d_ff, d_model]
  Matrix up;         // [d_ff, d_model]
  Matrix down;       // [d_model, d_ff]
};

template <typename B>
struct ModelWeights {
  typename B::Matrix embedding;         // [n_vocab, d_model]
  std::vector<LayerWeights<B>> layers;  // [n_layers]
  std::vector<float> output_norm;       // [d_model]
  std::optional<typename B::Matrix>
      head;                         // [n_vocab, d_model]; absent where the embedding serves as head
  std::vector<float> rope_factors;  // [n_rot / 2] or empty: frequencies are divided by these

  const typename B::Matrix& output() const noexcept { return head ? *head : embedding; }
};

/// Called as progress(bytes done, bytes in all) while weights are packed.
using LoadProgress = std::function<void(std::size_t, std::size_t)>;

namespace detail {

/// Takes tensors out of a file, each held to its shape.
template <typename B>
class WeightReader {
 public:
  WeightReader(B& backend, const Gguf& file, const LoadProgress& progress)
      : backend_(backend), file_(file), progress_(progress) {
    for (const auto& tensor : file.tensors()) total_ += tensor.data.size();
  }

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  typename B::Matrix matrix(const std::string& name, int n_out, int n_in) {
    typename B::Matrix packed = backend_.pack(checked_view(name, n_out, n_in));
    report(name);
    return packed;
  }

  std::vector<float> vector(const std::string& name, int n) {
    const auto values = backend_.vector(checked_view(name, 1, n));
    report(name);
    return {values.begin(), values.end()};
  }

  /// A vector that a family may lack.
  std::vector<float> optional_vector(const std::string& name, int n) {
    return has(name) ? vector(name, n) : std::vector<float>{};
  }

 private:
  TensorView checked_view(const std::string& name, int n_out, int n_in) const {
    const auto* tensor = file_.find_tensor(name);
    const std::string expected = "[" + std::to_string(n_out) + ", " + std::to_string(n_in) + "]";
    if (tensor == nullptr) {
      throw Error(ErrorCode::kShapeMismatch, "no tensor '" + name + "'", expected,
                  "the file is incomplete, or one part of a split model");
    }
    const TensorView view = file_.view(*tensor);
    if (view.n_out == static_cast<std::size_t>(n_out) &&
        view.n_in == static_cast<std::size_t>(n_in))
      return view;
    throw Error(ErrorCode::kShapeMismatch,
                "tensor '" + name + "' of shape [" + std::to_string(view.n_out) + ", " +
                    std::to_string(view.n_in) + "]",
                expected, "the file contradicts its own metadata");
  }

  void report(const std::string& name) {
    done_ += file_.find_tensor(name)->data.size();
    if (progress_) progress_(done_, total_);
  }

  B& backend_;
  const Gguf& file_;
  const LoadProgress& progress_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

}  // namespace detail

/// Take the weights out of a file and pack them for a backend.
/// @errors kShapeMismatch, kUnsupportedModel (a tensor type), kOutOfMemory
template <typename B>
ModelWeights<B> read_weights(B& backend, const Gguf& file, const ModelConfig& c,
                             const LoadProgress& progress = {}) {
  detail::WeightReader<B> reader(backend, file, progress);
  const int q_rows = c.n_heads * c.d_head;
  const int kv_rows = c.n_kv_heads * c.d_head;
  ModelWeights<B> weights{reader.matrix("token_embd.weight", c.n_vocab, c.d_model), {}, {}, {}, {}};
  weights.output_norm = reader.vector("output_norm.weight", c.d_model);
  if (reader.has("output.weight"))
    weights.head = reader.matrix("output.weight", c.n_vocab, c.d_model);
  weights.rope_factors = reader.optional_vector("rope_freqs.weight", c.n_rot / 2);
  // Every layer has tensors of its own, so a count beyond theirs is a lie: found out before memory
  // is asked for.
  if (static_cast<std::size_t>(c.n_layers) > file.tensors().size()) {
    throw Error(ErrorCode::kShapeMismatch, std::to_string(file.tensors().size()) + " tensors",
                "those of " + std::to_string(c.n_layers) + " layers",
                "the file contradicts its own metadata");
  }
  weights.layers.reserve(static_cast<std::size_t>(c.n_layers));
  for (int i = 0; i < c.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    weights.layers.push_back({
        reader.vector(layer + "attn_norm.weight", c.d_model),
        reader.matrix(layer + "attn_q.weight", q_rows, c.d_model),
        reader.matrix(layer + "attn_k.weight", kv_rows, c.d_model),
        reader.matrix(layer + "attn_v.weight", kv_rows, c.d_model),
        reader.matrix(layer + "attn_output.weight", c.d_model, q_rows),
        reader.optional_vector(layer + "attn_q.bias", q_rows),
        reader.optional_vector(layer + "attn_k.bias", kv_rows),
        reader.optional_vector(layer + "attn_v.bias", kv_rows),
        reader.vector(layer + "ffn_norm.weight", c.d_model),
        reader.matrix(layer + "ffn_gate.weight", c.d_ff, c.d_model),
        reader.matrix(layer + "ffn_up.weight", c.d_ff, c.d_model),
        reader.matrix(layer + "ffn_down.weight", c.d_model, c.d_ff),
    });
  }
  return weights;
}

}  // namespace foredraft::inline v0
