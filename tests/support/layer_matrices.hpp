#pragma once

#include <array>

#include <foredraft/model/layer_weights.hpp>

/// The matrices of a layer's attention and of its feed-forward part; those that it lacks are empty.
template <typename B>
std::array<const typename B::Matrix*, 8> layer_matrices(const foredraft::LayerWeights<B>& layer) {
  const auto& a = layer.attention;
  const auto& f = layer.feed_forward;
  return {&a.wq, &a.wk, &a.wv, &a.wo, &a.gate, &f.gate, &f.up, &f.down};
}
