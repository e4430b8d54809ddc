#pragma once

#include <vector>

#include "backend/cuda/layer_configs.hpp"
#include "backend/cuda/layer_on.hpp"

/// What the kernels compute for some layers: chains and trees behind a text.
/// @tparam R  rows of a cache on that device
struct LayerValues {
  template <typename B, typename R>
  static LayerValues of() {
    using namespace layer_configs;
    LayerValues values;
    B backend;
    for (const Kind kind : {kOdd, kScaled, kMixed}) {
      const mini::Config config = config_of(kind);
      layer_on::Layer<B, R> layer(backend, config);
      layer.commit(tokens(kind == kOdd ? 70 : 5));
      for (const int n_rows : {1, 8, 13, 33}) {
        values.add(layer.forward(inside(mini::random_tree(n_rows, 7), config)));
      }
    }
    return values;
  }

  std::vector<float> exact;    // every operation is rounded correctly
  std::vector<float> rounded;  // sums of tensor cores, exp and tanh are each side's own
  std::vector<int> argmax;

 private:
  void add(const layer_on::Outputs& out) {
    exact.insert(exact.end(), out.embedded.begin(), out.embedded.end());
    for (const auto* more : {&out.q, &out.attended, &out.fed, &out.logits, &out.maxima}) {
      rounded.insert(rounded.end(), more->begin(), more->end());
    }
    argmax.insert(argmax.end(), out.argmax.begin(), out.argmax.end());
  }
};
