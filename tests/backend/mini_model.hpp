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
  auto matrix = kernels_under_test::random_matrix(type, static_cast<std::size_t>(n_out),
                                                  static_cast<std::size_t>(n_in), seed);
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
    const auto values =
        normals(static_cast<std::size_t>(n_out) * static_cast<std::size_t>(n_in), seed, wanted);
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
                        normals(static_cast<std::size_t>(d_q), seed + 2, 0.3f),
                        normals(static_cast<std::size_t>(d_kv), seed + 3, 0.3f),
                        normals(static_cast<std::size_t>(d_kv), seed + 4, 0.3f),
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
    std::vector<float> values = normals(static_cast<std::size_t>(n), seed, 0.2f);
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
    for (; node >= 0; node = nodes[static_cast<std::size_t>(node)].parent)
      up.insert(up.begin(), node);
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

/// Forward all staged nodes of some sequences. `as_tree` names paths even for chains.
template <typename B, typename T>
Output forward(Model<B>& model, const std::vector<Sequence<T>*>& sequences, bool as_tree = true) {
  const Config& c = model.config;
  const fd::PassShape& s = c.shape;
  std::vector<fd::TokenId> tokens;
  std::vector<std::vector<fd::NodeIndex>> paths(sequences.size());
  std::vector<std::vector<std::int32_t>> begins(sequences.size());
  std::vector<fd::SequenceRows> rows;
  std::vector<float> cos;
  std::vector<float> sin;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence<T>& sequence = *sequences[i];
    fd::SequenceRows part{.first_row = static_cast<int>(tokens.size()),
                          .n_rows = static_cast<int>(sequence.nodes.size()),
                          .first_node = 0,
                          .size = sequence.cache.size(),
                          .path = {},
                          .path_begin = {}};
    begins[i].push_back(0);
    for (int node = 0; node < part.n_rows; ++node) {
      tokens.push_back(sequence.nodes[static_cast<std::size_t>(node)].token);
      const std::vector<int> up = sequence.ancestors(node);
      paths[i].insert(paths[i].end(), up.begin(), up.end());
      begins[i].push_back(static_cast<std::int32_t>(paths[i].size()));
      const auto position =
          static_cast<float>(sequence.cache.size() + static_cast<int>(up.size()) - 1);
      for (int pair = 0; pair < s.d_head / 2; ++pair) {
        const float angle = position / std::pow(100.0f, 2.0f * static_cast<float>(pair) /
                                                            static_cast<float>(s.d_head));
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
    }
    if (as_tree) {
      part.path = paths[i];
      part.path_begin = begins[i];
    }
    rows.push_back(part);
  }
  const int n_rows = static_cast<int>(tokens.size());
  const auto n = static_cast<std::size_t>(n_rows);
  const auto buffer = [n](int width) {
    return std::vector<float>(n * static_cast<std::size_t>(width));
  };
  std::vector<float> x = buffer(s.d_model);
  std::vector<float> q = buffer(s.d_q);
  std::vector<float> inputs = buffer(s.d_inputs);
  std::vector<float> gate = buffer(s.d_q);
  Output output{
      std::vector<std::vector<float>>(n, std::vector<float>(static_cast<std::size_t>(c.n_vocab))),
      std::vector<fd::TokenId>(n),
      {}};
  std::vector<float*> logits;
  std::vector<std::int32_t> wanted;
  for (auto& row : output.logits) logits.push_back(row.data());
  for (int row = 0; row < n_rows; ++row) wanted.push_back(row);
  std::vector<std::vector<typename fd::RowsIn<T>::Layer>> kv(static_cast<std::size_t>(c.n_layers));
  for (int layer = 0; layer < c.n_layers; ++layer) {
    for (Sequence<T>* sequence : sequences)
      kv[static_cast<std::size_t>(layer)].push_back(sequence->cache.layer(layer));
  }

  using L = typename B::Worker;
  using R = fd::RowsIn<T>;
  const fd::RopeTable<L> rope{c.rope, s.d_head, cos.data(), sin.data()};
  model.backend.run(s, [&](auto& worker) noexcept {
    worker.embed(fd::EmbedArgs<L>{&model.table, tokens, 1.5f, x.data()});
    if constexpr (fd::EmbedsLayers<L>) {
      if (c.partial) {
        worker.embed_layers(fd::EmbedLayersArgs<L>{.x = x.data(),
                                                   .tokens = tokens,
                                                   .table = &model.inputs_table,
                                                   .projection = &model.inputs_projection,
                                                   .norm = {model.input_norm.data(), 1e-5f},
                                                   .d_input = model.kInput,
                                                   .scale = 0.8f,
                                                   .inputs = inputs.data()});
      }
    }
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const auto& w = model.layers[i];
      fd::QkvArgs<L, R> qkv;
      qkv.x = x.data();
      qkv.n_rows = n_rows;
      qkv.norm = {w.norm.data(), 1e-5f};
      qkv.wq = &w.wq;
      qkv.wk = &w.wk;
      qkv.wv = &w.wv;
      if (c.bias) {
        qkv.q_bias = w.q_bias.data();
        qkv.k_bias = w.k_bias.data();
        qkv.v_bias = w.v_bias.data();
      }
      qkv.n_heads = c.n_heads();
      qkv.n_kv_heads = c.n_kv_heads();
      qkv.d_head = s.d_head;
      qkv.rope = rope;
      qkv.sequences = rows;
      qkv.kv = kv[i];
      qkv.q = q.data();
      if (c.norms) {
        qkv.q_norm = {w.q_norm.data(), 1e-5f};
        qkv.k_norm = {w.k_norm.data(), 1e-5f};
        qkv.w_gate = &w.w_gate;
        qkv.gate = gate.data();
      }
      if (c.scales) {
        qkv.norm.weight = nullptr;
        qkv.norms_all_heads = true;
        qkv.q_norm = {w.all_q_norm.data(), 1e-5f};
        qkv.k_norm = {w.all_k_norm.data(), 1e-5f};
      }
      if (c.partial) {
        qkv.wv = nullptr;
        qkv.v_bias = nullptr;
        qkv.v_norm = {w.q_norm.data(), 1e-5f};
        if (i > 0) qkv.wk = nullptr;
      }
      worker.qkv(qkv);
      fd::AttendArgs<L, R> attend;
      attend.q = q.data();
      attend.n_rows = n_rows;
      attend.n_heads = c.n_heads();
      attend.n_kv_heads = c.n_kv_heads();
      attend.d_head = s.d_head;
      attend.scale = 1.0f / std::sqrt(static_cast<float>(s.d_head));
      attend.sequences = rows;
      attend.kv = kv[c.partial ? 0 : i];
      attend.wo = &w.wo;
      attend.x = x.data();
      attend.window = c.window;
      if (c.norms) {
        attend.post_norm = {w.post_norm.data(), 1e-5f};
        attend.gate = gate.data();
      }
      if (c.scales) {
        attend.softcap = 2.0f;
        attend.residual = 0.7f;
      }
      worker.attend(attend);
      fd::FeedForwardArgs<L> feed_forward{
          x.data(), n_rows, {w.ff_norm.data(), 1e-5f}, c.activation, &w.gate, &w.up, &w.down};
      if (c.norms) feed_forward.post_norm = {w.post_ff_norm.data(), 1e-5f};
      if (c.scales) {
        feed_forward.norm.weight = nullptr;
        feed_forward.residual = 0.3f;
      }
      worker.feed_forward(feed_forward);
      if (!c.partial) continue;
      fd::FeedForwardArgs<L> input{x.data(),      n_rows,  {},           c.activation,
                                   &w.input_gate, nullptr, &w.input_down};
      input.factor = inputs.data() + i * static_cast<std::size_t>(model.kInput);
      input.factor_stride = s.d_inputs;
      input.output_scale = 0.9f;
      worker.feed_forward(input);
      input.factor = nullptr;
      worker.feed_forward(input);
    }
    fd::HeadArgs<L> head{x.data(),    wanted,        {model.norm.data(), 1e-5f},
                         &model.head, output.argmax, logits};
    if (c.scales) {
      head.scale = 0.5f;
      head.softcap = 1.5f;
    }
    worker.head(head);
  });
  output.x = x;
  return output;
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
