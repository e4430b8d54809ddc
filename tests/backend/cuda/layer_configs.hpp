#pragma once

#include <numeric>
#include <vector>

#include "backend/mini_model.hpp"

/// Layers that tests of a whole device run, and what goes through them.
namespace layer_configs {

namespace fd = foredraft;

/// Shapes that are multiples of nothing.
inline mini::Config odd_config() {
  mini::Config config;
  config.shape = {.n_rows = 0, .d_model = 37, .d_ff = 50, .d_q = 80, .d_kv = 40, .d_head = 20};
  config.n_vocab = 131;  // a run, and a little
  config.rope = fd::RopeKind::kAdjacent;
  config.window = 9;
  config.norms = true;
  config.activation = fd::Activation::kGeluTanh;
  return config;
}

/// Heads that a quantized cache can hold.
inline mini::Config wide_config() {
  mini::Config config = odd_config();
  config.shape = {.n_rows = 0, .d_model = 37, .d_ff = 50, .d_q = 384, .d_kv = 128, .d_head = 64};
  return config;
}

/// Every format, and inputs of one norm in several.
inline mini::Config mixed_config() {
  mini::Config config =
      mini::with_types({fd::TensorType::kQ4_0, fd::TensorType::kQ8_0, fd::TensorType::kQ8_0,
                        fd::TensorType::kQ4_K, fd::TensorType::kQ4_0, fd::TensorType::kBF16,
                        fd::TensorType::kF16, fd::TensorType::kQ5_1, fd::TensorType::kQ8_0});
  config.shape = {.n_rows = 0, .d_model = 256, .d_ff = 64, .d_q = 96, .d_kv = 32, .d_head = 16};
  config.n_vocab = 140;
  return config;
}

enum Kind {
  kOdd,
  kScaled,
  kMixed
};
inline mini::Config config_of(Kind kind) {
  if (kind == kMixed) return mixed_config();
  mini::Config config = odd_config();
  config.scales = kind == kScaled;
  return config;
}

inline std::vector<fd::TokenId> tokens(int n) {
  std::vector<fd::TokenId> tokens(fd::idx(n));
  std::iota(tokens.begin(), tokens.end(), 2);
  return tokens;
}

/// The same nodes with tokens of the vocabulary.
inline std::vector<fd::Node> inside(std::vector<fd::Node> nodes, const mini::Config& config) {
  for (fd::Node& node : nodes) node.token %= config.n_vocab;
  return nodes;
}

}  // namespace layer_configs
