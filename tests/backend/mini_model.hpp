#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/cache/linear.hpp>

#include "backend/cpu/random_matrix.hpp"

/// A decoder of one or two layers with random weights, for tests of backends: as little around the
/// operators as will do.
namespace mini {

namespace fd = foredraft;

struct Config {
  fd::PassShape shape{
      .n_rows = 40, .d_model = 256, .d_ff = 512, .d_q = 256, .d_kv = 128, .d_head = 64};
  int n_vocab = 300;  // not a multiple of a panel
  int n_layers = 1;
  bool bias = true;
  // Of the heads of queries and keys, and behind both parts of a layer; and a gate on attention.
  bool norms = false;
  // No norms before the parts of a layer, one norm of all heads, soft-caps, and factors on what is
  // added to x and on logits.
  bool scales = false;
  // Values made from keys, with a norm; layers behind the first with the keys of that; an input of
  // each layer's own, and a factor on what it leaves.
  bool partial = false;
  int window = 0;
  fd::RopeKind rope = fd::RopeKind::kHalves;
  fd::Activation activation = fd::Activation::kSilu;
  // table, wq, wk, wv, wo, gate, up, down, head
  std::vector<fd::TensorType> types = std::vector<fd::TensorType>(9, fd::TensorType::kF32);

  int n_heads() const { return shape.d_q / shape.d_head; }
  int n_kv_heads() const { return shape.d_kv / shape.d_head; }
};

inline Config with_types(std::vector<fd::TensorType> types) {
  Config config;
  config.types = std::move(types);
  return config;
}

inline std::vector<float> normals(std::size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

/// Random weights as a file would hold them, scaled so that products stay near 1.
inline kernels_under_test::FileMatrix weights(fd::TensorType type, int n_out, int n_in,
                                              unsigned seed) {
  auto matrix = kernels_under_test::random_matrix(type, fd::idx(n_out), fd::idx(n_in), seed);
  const float wanted = 1.0f / std::sqrt(static_cast<float>(n_in));
  const auto geometry = fd::quant_geometry(type);
  if (geometry.elements != 0) {
    // The greatest code times the greatest scale that 6 bits hold, as a rough measure.
    const float span =
        static_cast<float>(1 << geometry.bits) * (geometry.elements == 256 ? 32.0f : 1.0f);
    std::mt19937 random(seed + 1);
    std::uniform_real_distribution<float> around(0.5f, 1.5f);
    kernels_under_test::set_scales(
        matrix, [&] { return fd::float_to_half(3 * wanted / span * around(random)); });
  } else {
    const auto values = normals(fd::idx(n_out) * fd::idx(n_in), seed, wanted);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t bits;
      const std::size_t size = std::min(fd::layout_of(type)->bytes, sizeof bits);
      std::memcpy(&bits, &values[i], 4);
      if (type == fd::TensorType::kF16) bits = fd::float_to_half(values[i]);
      if (type == fd::TensorType::kBF16) bits >>= 16;
      std::memcpy(&matrix.bytes[i * size], &bits, size);
    }
  }
  return matrix;
}

template <typename B>
struct Model {
  struct Layer {
    typename B::Matrix wq, wk, wv, wo, gate, up, down, input_gate, input_down, w_gate;
    std::vector<float> norm, ff_norm, q_bias, k_bias, v_bias;
    std::vector<float> q_norm, k_norm, post_norm, post_ff_norm, all_q_norm, all_k_norm;
  };

  Model(B& b, const Config& c)
      : backend(b),
        config(c),
        table(pack(0, c.n_vocab, c.shape.d_model)),
        head(pack(8, c.n_vocab, c.shape.d_model)) {
    const fd::PassShape& s = c.shape;
    const int d_q = s.d_q;
    const int d_kv = s.d_kv;
    for (int layer = 0; layer < c.n_layers; ++layer) {
      const auto seed = static_cast<unsigned>(100 * layer + 50);
      layers.push_back({pack(1, d_q, s.d_model),
                        pack(2, d_kv, s.d_model),
                        pack(3, d_kv, s.d_model),
                        pack(4, s.d_model, d_q),
                        pack(5, s.d_ff, s.d_model),
                        pack(6, s.d_ff, s.d_model),
                        pack(7, s.d_model, s.d_ff),
                        pack(5, kInput, s.d_model, seed),
                        pack(0, s.d_model, kInput, seed + 1),
                        pack(1, d_q, s.d_model, seed + 2),
                        around_one(s.d_model, seed),
                        around_one(s.d_model, seed + 1),
                        normals(fd::idx(d_q), seed + 2, 0.3f),
                        normals(fd::idx(d_kv), seed + 3, 0.3f),
                        normals(fd::idx(d_kv), seed + 4, 0.3f),
                        around_one(s.d_head, seed + 5),
                        around_one(s.d_head, seed + 6),
                        around_one(s.d_model, seed + 7),
                        around_one(s.d_model, seed + 8),
                        around_one(d_q, seed + 9),
                        around_one(d_kv, seed + 10)});
    }
    norm = around_one(s.d_model, 9);
    if (!c.partial) return;
    inputs_table = pack(0, c.n_vocab, kInput * c.n_layers);
    inputs_projection = pack(1, kInput * c.n_layers, s.d_model);
    input_norm = around_one(kInput, 10);
    config.shape.d_inputs = kInput * c.n_layers;
  }

  static constexpr int kInput = 256;  // of each layer's own

  typename B::Matrix pack(std::size_t which, int n_out, int n_in) {
    return pack(which, n_out, n_in, ++seed_);
  }
  typename B::Matrix pack(std::size_t which, int n_out, int n_in, unsigned seed) {
    return backend.pack(weights(config.types[which], n_out, n_in, seed).view());
  }
  static std::vector<float> around_one(int n, unsigned seed) {
    std::vector<float> values = normals(fd::idx(n), seed, 0.2f);
    for (float& v : values) v += 1.0f;
    return values;
  }

  B& backend;
  Config config;
  unsigned seed_ = 0;
  typename B::Matrix table;
  typename B::Matrix head;
  typename B::Matrix inputs_table, inputs_projection;
  std::vector<Layer> layers;
  std::vector<float> norm, input_norm;
};

/// A cache, and the nodes that the next pass stages behind it.
template <typename T>
struct Sequence {
  explicit Sequence(const Config& c)
      : config(c), cache({c.n_layers, c.n_kv_heads(), c.shape.d_head, kPositions}) {}
  Sequence(const Sequence& other) : Sequence(other.config) { *this = other; }
  Sequence& operator=(const Sequence& other) {
    cache.restore(other.cache.snapshot());
    nodes = other.nodes;
    return *this;
  }

  std::vector<int> ancestors(int node) const {
    std::vector<int> up;
    for (; node >= 0; node = nodes[fd::idx(node)].parent) up.insert(up.begin(), node);
    return up;
  }

  void commit(const std::vector<int>& path) {
    cache.stage(nodes);
    cache.commit(path);
    cache.discard();
    nodes.clear();
  }

  static constexpr int kPositions = 224;
  Config config;
  fd::LinearCache<T> cache;
  std::vector<fd::Node> nodes = {};
};

struct Output {
  std::vector<std::vector<float>> logits;  // [rows][n_vocab]
  std::vector<fd::TokenId> argmax;
  std::vector<float> x;  // [rows, d_model] before the head
};

/// The staged nodes of some sequences, as the rows of one pass.
struct StagedRows {
  std::vector<fd::TokenId> tokens;
  std::vector<std::vector<fd::NodeIndex>> paths;
  std::vector<std::vector<std::int32_t>> begins;
  std::vector<fd::SequenceRows> sequences;  // refer to paths and begins
  std::vector<float> cos, sin;

  template <typename T>
  StagedRows(const std::vector<Sequence<T>*>& all, bool as_tree, int d_head)
      : paths(all.size()), begins(all.size()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      sequences.push_back(add(*all[i], paths[i], begins[i], d_head));
      if (!as_tree) continue;
      sequences.back().path = paths[i];
      sequences.back().path_begin = begins[i];
    }
  }

 private:
  template <typename T>
  fd::SequenceRows add(const Sequence<T>& sequence, std::vector<fd::NodeIndex>& path,
                       std::vector<std::int32_t>& path_begin, int d_head) {
    fd::SequenceRows part{.first_row = static_cast<int>(tokens.size()),
                          .n_rows = static_cast<int>(sequence.nodes.size()),
                          .first_node = 0,
                          .size = sequence.cache.size(),
                          .path = {},
                          .path_begin = {}};
    path_begin.push_back(0);
    for (int node = 0; node < part.n_rows; ++node) {
      tokens.push_back(sequence.nodes[fd::idx(node)].token);
      const std::vector<int> up = sequence.ancestors(node);
      path.insert(path.end(), up.begin(), up.end());
      path_begin.push_back(static_cast<std::int32_t>(path.size()));
      add_rotation(sequence.cache.size() + static_cast<int>(up.size()) - 1, d_head);
    }
    return part;
  }

  void add_rotation(int at, int d_head) {
    const auto position = static_cast<float>(at);
    for (int pair = 0; pair < d_head / 2; ++pair) {
      const float angle =
          position / std::pow(100.0f, 2.0f * static_cast<float>(pair) / static_cast<float>(d_head));
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
};

/// A pass over all staged nodes of some sequences, and the activations between its operators.
template <typename B, typename T>
class Pass {
  using L = typename B::Worker;
  using R = fd::RowsIn<T>;

 public:
  Pass(Model<B>& model, const std::vector<Sequence<T>*>& sequences, bool as_tree)
      : model_(model), rows_(sequences, as_tree, shape_.d_head) {
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      kv_.emplace_back();
      for (Sequence<T>* sequence : sequences) kv_.back().push_back(sequence->cache.layer(layer));
    }
    for (int row = 0; row < n_rows_; ++row) wanted_.push_back(row);
    for (auto& row : output_.logits) logits_.push_back(row.data());
  }

  Output run() {
    model_.backend.run(shape_, [&](L& worker) noexcept {
      embed(worker);
      for (std::size_t i = 0; i < model_.layers.size(); ++i) {
        worker.qkv(qkv_args(i));
        worker.attend(attend_args(i));
        worker.feed_forward(feed_forward_args(i));
        if (config_.partial) take_input(worker, i);
      }
      worker.head(head_args());
    });
    output_.x = x_;
    return std::move(output_);
  }

 private:
  std::vector<float> buffer(int width) const { return std::vector<float>(n_ * fd::idx(width)); }

  void embed(L& worker) noexcept {
    worker.embed(fd::EmbedArgs<L>{&model_.table, rows_.tokens, 1.5f, x_.data()});
    if constexpr (fd::EmbedsLayers<L>) {
      if (!config_.partial) return;
      worker.embed_layers(fd::EmbedLayersArgs<L>{.x = x_.data(),
                                                 .tokens = rows_.tokens,
                                                 .table = &model_.inputs_table,
                                                 .projection = &model_.inputs_projection,
                                                 .norm = {model_.input_norm.data(), 1e-5f},
                                                 .d_input = model_.kInput,
                                                 .scale = 0.8f,
                                                 .inputs = inputs_.data()});
    }
  }

  fd::QkvArgs<L, R> qkv_args(std::size_t i) noexcept {
    const auto& w = model_.layers[i];
    fd::QkvArgs<L, R> qkv;
    qkv.x = x_.data();
    qkv.n_rows = n_rows_;
    qkv.norm = {w.norm.data(), 1e-5f};
    qkv.wq = &w.wq;
    qkv.wk = &w.wk;
    qkv.wv = &w.wv;
    if (config_.bias) {
      qkv.q_bias = w.q_bias.data();
      qkv.k_bias = w.k_bias.data();
      qkv.v_bias = w.v_bias.data();
    }
    qkv.n_heads = config_.n_heads();
    qkv.n_kv_heads = config_.n_kv_heads();
    qkv.d_head = shape_.d_head;
    qkv.rope = {config_.rope, shape_.d_head, rows_.cos.data(), rows_.sin.data()};
    qkv.sequences = rows_.sequences;
    qkv.kv = kv_[i];
    qkv.q = q_.data();
    if (config_.norms) {
      qkv.q_norm = {w.q_norm.data(), 1e-5f};
      qkv.k_norm = {w.k_norm.data(), 1e-5f};
      qkv.w_gate = &w.w_gate;
      qkv.gate = gate_.data();
    }
    if (config_.scales) {
      qkv.norm.weight = nullptr;
      qkv.norms_all_heads = true;
      qkv.q_norm = {w.all_q_norm.data(), 1e-5f};
      qkv.k_norm = {w.all_k_norm.data(), 1e-5f};
    }
    if (config_.partial) {
      qkv.wv = nullptr;
      qkv.v_bias = nullptr;
      qkv.v_norm = {w.q_norm.data(), 1e-5f};
      if (i > 0) qkv.wk = nullptr;
    }
    return qkv;
  }

  fd::AttendArgs<L, R> attend_args(std::size_t i) noexcept {
    const auto& w = model_.layers[i];
    fd::AttendArgs<L, R> attend;
    attend.q = q_.data();
    attend.n_rows = n_rows_;
    attend.n_heads = config_.n_heads();
    attend.n_kv_heads = config_.n_kv_heads();
    attend.d_head = shape_.d_head;
    attend.scale = 1.0f / std::sqrt(static_cast<float>(shape_.d_head));
    attend.sequences = rows_.sequences;
    attend.kv = kv_[config_.partial ? 0 : i];
    attend.wo = &w.wo;
    attend.x = x_.data();
    attend.window = config_.window;
    if (config_.norms) {
      attend.post_norm = {w.post_norm.data(), 1e-5f};
      attend.gate = gate_.data();
    }
    if (config_.scales) {
      attend.softcap = 2.0f;
      attend.residual = 0.7f;
    }
    return attend;
  }

  fd::FeedForwardArgs<L> feed_forward_args(std::size_t i) noexcept {
    const auto& w = model_.layers[i];
    fd::FeedForwardArgs<L> feed_forward{
        x_.data(), n_rows_, {w.ff_norm.data(), 1e-5f}, config_.activation, &w.gate, &w.up, &w.down};
    if (config_.norms) feed_forward.post_norm = {w.post_ff_norm.data(), 1e-5f};
    if (config_.scales) {
      feed_forward.norm.weight = nullptr;
      feed_forward.residual = 0.3f;
    }
    return feed_forward;
  }

  /// A layer's own input; then its matrices once more, without it.
  void take_input(L& worker, std::size_t i) noexcept {
    const auto& w = model_.layers[i];
    fd::FeedForwardArgs<L> input{x_.data(),     n_rows_, {},           config_.activation,
                                 &w.input_gate, nullptr, &w.input_down};
    input.factor = inputs_.data() + i * fd::idx(model_.kInput);
    input.factor_stride = shape_.d_inputs;
    input.output_scale = 0.9f;
    worker.feed_forward(input);
    input.factor = nullptr;
    worker.feed_forward(input);
  }

  fd::HeadArgs<L> head_args() noexcept {
    fd::HeadArgs<L> head{x_.data(),    wanted_,        {model_.norm.data(), 1e-5f},
                         &model_.head, output_.argmax, logits_};
    if (config_.scales) {
      head.scale = 0.5f;
      head.softcap = 1.5f;
    }
    return head;
  }

  Model<B>& model_;
  const Config& config_ = model_.config;
  const fd::PassShape& shape_ = config_.shape;
  StagedRows rows_;
  std::size_t n_ = rows_.tokens.size();
  int n_rows_ = static_cast<int>(n_);
  std::vector<std::vector<typename R::Layer>> kv_;  // [n_layers][sequences]
  std::vector<float> x_ = buffer(shape_.d_model);
  std::vector<float> q_ = buffer(shape_.d_q);
  std::vector<float> inputs_ = buffer(shape_.d_inputs);
  std::vector<float> gate_ = buffer(shape_.d_q);
  Output output_{std::vector<std::vector<float>>(n_, std::vector<float>(fd::idx(config_.n_vocab))),
                 std::vector<fd::TokenId>(n_),
                 {}};
  std::vector<float*> logits_;
  std::vector<std::int32_t> wanted_;
};

/// Forward all staged nodes of some sequences. `as_tree` names paths even for chains.
template <typename B, typename T>
Output forward(Model<B>& model, const std::vector<Sequence<T>*>& sequences, bool as_tree = true) {
  return Pass<B, T>(model, sequences, as_tree).run();
}

/// Tokens by number, the first following the committed rows.
inline std::vector<fd::Node> chain(int n, int first_token = 1) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({first_token + 7 * i % 290, i - 1});
  return nodes;
}

inline std::vector<fd::Node> random_tree(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) {
    const int parent = static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1;
    nodes.push_back({static_cast<fd::TokenId>(random() % 290), parent});
  }
  return nodes;
}

}  // namespace mini
