#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <foredraft/backend/dequantized.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/drop_behind.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/changed_matrix.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/family/families.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/load_options.hpp>

namespace foredraft::inline v0 {

template <typename B>
struct ModelWeights {
  typename B::Matrix embedding;         // [n_vocab, d_model]
  std::vector<LayerWeights<B>> layers;  // [n_layers]
  typename B::Vector output_norm;       // [d_model]
  // [n_vocab or head_tokens, d_model]; absent where the embedding serves as head
  std::optional<typename B::Matrix> head;
  std::vector<float> rope_factors;   // [n_rot / 2] or empty: frequencies are divided by these
  std::vector<TokenId> head_tokens;  // of each row of a trimmed head, ascending; else empty
  std::optional<LayerInputWeights<B>> layer_inputs = {};

  const typename B::Matrix& output() const noexcept { return head ? *head : embedding; }
};

/// Makes the matrix of a tensor that stays as it is in the file.
template <typename B>
using MatrixSource = std::function<typename B::Matrix(const TensorView&)>;

namespace detail {

/// Takes tensors out of a file, each held to its shape.
template <typename B>
class WeightReader {
 public:
  WeightReader(B& backend, const Gguf& file, const LoadOptions& options,
               const MatrixSource<B>& source)
      : backend_(backend),
        file_(file),
        options_(options),
        source_(source),
        read_(file.tensors().size()) {
    for (const auto& tensor : file.tensors()) total_ += tensor.data.size();
  }

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  /// A matrix exactly as the file has it.
  typename B::Matrix unchanged(const std::string& name, Dim n_out, Dim n_in) {
    const TensorView view = checked_view(name, n_out, n_in);
    typename B::Matrix packed = pack(view);
    behind_.read(view);
    report(name);
    return packed;
  }

  /// A matrix as the options want it. @param tokens the rows to keep; empty: all
  typename B::Matrix matrix(const std::string& name, Dim n_out, Dim n_in,
                            std::span<const TokenId> tokens = {}) {
    typename B::Matrix packed = changed(name, checked_view(name, n_out, n_in), tokens);
    report(name);
    return packed;
  }

  /// One of several matrices that lie in a tensor of n_out rows one behind the other: `count` rows
  /// from `first` on. Take them in order.
  typename B::Matrix rows(const std::string& name, Dim n_out, Dim n_in, int first, int count) {
    TensorView view = checked_view(name, n_out, n_in);
    const std::size_t bytes = view.data.size() / view.n_out;  // rows are whole blocks
    view.n_out = idx(count);
    view.data = view.data.subspan(idx(first) * bytes, idx(count) * bytes);
    typename B::Matrix packed = changed(name, view, {});
    if (first + count == n_out) report(name);
    return packed;
  }

  /// Some rows of a tensor of n_out, in any order: of matrices whose rows take turns in it. The last of
  /// these matrices is the one that reports it.
  typename B::Matrix picked(const std::string& name, Dim n_out, Dim n_in, std::span<const int> rows,
                            bool last) {
    const TensorView view = checked_view(name, n_out, n_in);
    const std::size_t bytes = view.data.size() / view.n_out;  // rows are whole blocks
    TensorView chosen{view.type, rows.size(), view.n_in, view.data.subspan(idx(rows[0]) * bytes)};
    std::vector<std::byte> copy;
    if constexpr (requires { typename B::Worker; }) {  // others only ask where the rows come from
      for (const int row : rows) {
        const auto from = view.data.subspan(idx(row) * bytes, bytes);
        copy.insert(copy.end(), from.begin(), from.end());
      }
      chosen.data = copy;
    }
    const TensorType to = wanted_type(view);
    typename B::Matrix packed =
        to == view.type ? pack(chosen) : pack_changed(backend_, name, chosen, {}, to);
    behind_.read(view);
    if (last) report(name);
    return packed;
  }

  /// The output head where another part of the model has the same tensor and reports it.
  typename B::Matrix second_copy(const std::string& name, Dim n_out, Dim n_in,
                                 std::span<const TokenId> tokens) {
    return changed(name, checked_view(name, n_out, n_in), tokens);
  }

  bool changes(const std::string& name) const {
    const auto* tensor = file_.find_tensor(name);
    return tensor != nullptr && wanted_type(file_.view(*tensor)) != tensor->type;
  }

  typename B::Vector vector(const std::string& name, Dim n) {
    const TensorView view = checked_view(name, 1, n);
    typename B::Vector packed = backend_.vector(view);
    behind_.read(view);
    report(name);
    return packed;
  }

  /// A matrix of which every column is needed in one piece. @shape of the result [n_in, n_out]
  typename B::Vector transposed(const std::string& name, Dim n_out, Dim n_in) {
    const TensorView view = checked_view(name, n_out, n_in);
    const std::vector<float> rows = dequantized(view);
    std::vector<float> columns(rows.size());
    for (int out = 0; out < n_out; ++out) {
      for (int in = 0; in < n_in; ++in) {
        columns[idx(in) * idx(n_out) + idx(out)] = rows[idx(out) * idx(n_in) + idx(in)];
      }
    }
    return host_vector(name, view, columns);
  }

  /// A vector that a family may lack.
  typename B::Vector optional_vector(const std::string& name, Dim n) {
    return has(name) ? vector(name, n) : typename B::Vector{};
  }

  /// All values of a matrix, one row behind the other.
  typename B::Vector flat(const std::string& name, Dim n_out, Dim n_in) {
    const TensorView view = checked_view(name, n_out, n_in);
    return host_vector(name, view, dequantized(view));
  }

  /// Likewise, for the host to read.
  std::vector<float> optional_numbers(const std::string& name, Dim n) {
    return has(name) ? numbers(name, n) : std::vector<float>();
  }
  std::vector<float> numbers(const std::string& name, Dim n) {
    const TensorView view = checked_view(name, 1, n);
    std::vector<float> values = dequantized_vector(view);
    behind_.read(view);
    report(name);
    return values;
  }

  /// Of a norm without weights.
  typename B::Vector ones(Dim n) {
    const std::vector<float> values(idx(n), 1.0f);
    return backend_.vector({.type = TensorType::kF32,
                            .n_out = 1,
                            .n_in = values.size(),
                            .data = std::as_bytes(std::span(values))});
  }

  /// Take note of a tensor, if the file has it, that this configuration has no use for.
  void leave(const std::string& name) {
    if (const auto* tensor = file_.find_tensor(name)) {
      read_[idx(tensor - file_.tensors().data())] = true;
      report(name);
    }
  }

  /// Likewise, of all tensors of the layers from `begin` up to `end`. @cost O(tensors)
  void leave_layers(int begin, int end) {
    constexpr std::string_view kLayer = "blk.";
    for (const auto& tensor : file_.tensors()) {
      const std::string_view name = tensor.name;
      if (!name.starts_with(kLayer)) continue;
      int n = -1;
      const char* const last = name.data() + name.size();
      const auto [rest, error] = std::from_chars(name.data() + kLayer.size(), last, n);
      if (error != std::errc() || rest == last || *rest != '.') continue;
      if (n >= begin && n < end) leave(std::string(name));
    }
  }

  /// Refuse a file with a tensor that nothing took: it belongs to a step that this model leaves
  /// out, so the text would look whole and be wrong.
  void require_all_read() const {
    const auto unread = std::find(read_.begin(), read_.end(), false);
    if (unread == read_.end()) return;
    const auto others = std::count(unread + 1, read_.end(), false);
    const auto& tensor = file_.tensors()[idx(unread - read_.begin())];
    throw Error(ErrorCode::kUnsupportedModel,
                "tensor " + in_quotes(tensor.name) +
                    (others > 0 ? " and " + std::to_string(others) + " more" : "") +
                    ", which this version does not use",
                "the tensors of the family and no others",
                "without them the text would be wrong: choose another model");
  }

 private:
  TensorType wanted_type(const TensorView& view) const {
    const auto to = options_.requantize;
    return to && shrinks(view.type, view.n_in, *to) ? *to : view.type;
  }

  typename B::Matrix changed(const std::string& name, const TensorView& view,
                             std::span<const TokenId> tokens) {
    const TensorType to = wanted_type(view);
    typename B::Matrix packed = to == view.type && tokens.empty()
                                    ? pack(view)
                                    : pack_changed(backend_, name, view, tokens, to);
    behind_.read(view);
    return packed;
  }

  typename B::Matrix pack(const TensorView& view) {
    return source_ ? source_(view) : backend_.pack(view);
  }

  typename B::Vector host_vector(const std::string& name, const TensorView& from,
                                 const std::vector<float>& values) {
    typename B::Vector packed = backend_.vector({.type = TensorType::kF32,
                                                 .n_out = 1,
                                                 .n_in = values.size(),
                                                 .data = std::as_bytes(std::span(values))});
    behind_.read(from);
    report(name);
    return packed;
  }

  TensorView checked_view(const std::string& name, Dim n_out, Dim n_in) {
    const auto* tensor = file_.find_tensor(name);
    const std::string expected = "[" + std::to_string(n_out) + ", " + std::to_string(n_in) + "]";
    if (tensor == nullptr) {
      throw Error(ErrorCode::kShapeMismatch, "no tensor '" + name + "'", expected,
                  "the file is incomplete, or one part of a split model");
    }
    read_[idx(tensor - file_.tensors().data())] = true;
    const TensorView view = file_.view(*tensor);
    if (view.n_out == idx(n_out) && view.n_in == idx(n_in)) return view;
    throw Error(ErrorCode::kShapeMismatch,
                "tensor '" + name + "' of shape [" + std::to_string(view.n_out) + ", " +
                    std::to_string(view.n_in) + "]",
                expected, "the file contradicts its own metadata");
  }

  void report(const std::string& name) {
    done_ += file_.find_tensor(name)->data.size();
    if (options_.progress) options_.progress(done_, total_);
  }

  B& backend_;
  const Gguf& file_;
  const LoadOptions& options_;
  const MatrixSource<B>& source_;
  std::vector<bool> read_;  // [tensors of the file]
  DropBehind behind_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

/// Whether a matrix that passes read would become smaller.
inline bool shrinks_any(const Gguf& file, TensorType to) {
  const bool untied = file.find_tensor("output.weight") != nullptr;
  const auto shrinks_to = [&](const auto& tensor) {
    const bool only_table = tensor.name == "token_embd.weight" && untied;
    return tensor.shape.size() == 2 && !only_table &&
           shrinks(tensor.type, idx(tensor.shape[0]), to);
  };
  const auto& tensors = file.tensors();
  return std::any_of(tensors.begin(), tensors.end(), shrinks_to);
}

/// Refuse to requantize where nothing would come of it.
inline void check_requantize(const Gguf& file, TensorType to) {
  const auto layout = layout_of(to);
  const std::string format(layout ? layout->name : "an unknown format");
  if (!quantizable(to)) {
    throw Error(ErrorCode::kInvalidOption, "requantize to " + format, "Q4_0 or Q8_0",
                "load the model as it is, or fetch it in that format");
  }
  if (shrinks_any(file, to)) return;
  throw Error(ErrorCode::kInvalidOption, "requantize to " + format + ", which nothing needs",
              "a file with a matrix of more bits", "load it as it is");
}

}  // namespace detail

/// Take the weights out of a file and pack them for a backend.
/// @param head_tokens  rows that the head keeps, ascending; empty: all. Of the options only
///   `requantize` and `progress` are read.
/// @param source  in place of backend.pack(): the embedding, the head, then the layers, each in the order
///   in which its family reads it, which packed files keep
/// @errors kShapeMismatch, kUnsupportedModel (a tensor type, a tensor that the model does not use,
///   weights that cannot be requantized), kInvalidOption (requantizing to a format that
///   quantize_row() lacks, or that makes nothing smaller), kOutOfMemory
template <typename B>
ModelWeights<B> read_weights(B& backend, const Gguf& file, const ModelConfig& c,
                             const LoadOptions& options = {}, std::vector<TokenId> head_tokens = {},
                             const MatrixSource<B>& source = {}) {
  detail::WeightReader<B> reader(backend, file, options, source);
  if (options.requantize) detail::check_requantize(file, *options.requantize);
  const std::string embedding = "token_embd.weight";
  const std::string head = "output.weight";
  ModelWeights<B> weights{
      reader.unchanged(embedding, c.n_vocab, c.d_model), {}, {}, {}, {}, std::move(head_tokens)};
  weights.output_norm = reader.vector(c.output_norm, c.d_model);
  if (reader.has(head)) {
    weights.head = reader.matrix(head, c.n_vocab, c.d_model, weights.head_tokens);
  } else if (reader.changes(embedding) || !weights.head_tokens.empty()) {
    weights.head = reader.second_copy(embedding, c.n_vocab, c.d_model, weights.head_tokens);
  }
  if (!c.ropes.empty()) {
    const Dim n_factors = c.ropes[0].n_rot / 2;
    weights.rope_factors = c.needs_rope_factors
                               ? reader.numbers(c.rope_factors, n_factors)
                               : reader.optional_numbers(c.rope_factors, n_factors);
  }
  reader.leave(c.other_rope_factors);
  const int n_layers = static_cast<int>(c.layers.size());
  // Every layer has tensors of its own, so a count beyond theirs is a lie: found out before memory
  // is asked for.
  if (c.layers.size() > file.tensors().size()) {
    throw Error(ErrorCode::kShapeMismatch, std::to_string(file.tensors().size()) + " tensors",
                "those of " + std::to_string(c.layers.size()) + " layers",
                "the file contradicts its own metadata");
  }
  reader.leave_layers(n_layers, n_layers + c.n_left_layers);
  weights.layers = family::All::visit<std::vector<LayerWeights<B>>>(c.family, [&](auto family) {
    using Family = decltype(family);
    if constexpr (requires { Family::kEmbedsLayers; }) {
      if (c.d_input > 0) weights.layer_inputs = Family::template layer_inputs<B>(reader, c);
    }
    std::vector<LayerWeights<B>> layers;
    layers.reserve(c.layers.size());
    for (int n = 0; n < n_layers; ++n) layers.push_back(Family::template layer<B>(reader, c, n));
    return layers;
  });
  reader.require_all_read();
  return weights;
}

}  // namespace foredraft::inline v0
