#pragma once

#include <variant>

namespace foredraft::inline v0 {

/// Weights of a short convolution. @see ShortConvArgs
template <typename B>
struct ShortConvWeights {
  typename B::Matrix in;      // [3 * width, d_model]
  typename B::Vector kernel;  // [kernel, width]
  typename B::Matrix out;     // [d_model, width]
};

/// Weights of a selective scan. @see SelectiveScanArgs
template <typename B>
struct SelectiveScanWeights {
  typename B::Matrix in;          // [width + d_conv + n_heads, d_model]
  typename B::Vector kernel;      // [kernel, d_conv]
  typename B::Vector conv_bias;   // [d_conv] or empty
  typename B::Vector dt_bias;     // [n_heads]
  typename B::Vector decay;       // [n_heads]
  typename B::Vector skip;        // [n_heads]
  typename B::Vector group_norm;  // [width]
  typename B::Matrix out;         // [d_model, width]
};

/// Weights of a gated delta net. @see GatedDeltaNetArgs
template <typename B>
struct GatedDeltaNetWeights {
  typename B::Matrix qkv;        // [d_conv, d_model]
  typename B::Matrix gate;       // [width, d_model]
  typename B::Matrix beta;       // [n_heads, d_model]
  typename B::Matrix alpha;      // [n_heads, d_model]
  typename B::Vector kernel;     // [kernel, d_conv]
  typename B::Vector dt_bias;    // [n_heads]
  typename B::Vector decay;      // [n_heads]
  typename B::Vector head_norm;  // [d_value]
  typename B::Matrix out;        // [d_model, width]
};

/// Weights of what a layer has in place of attention: the alternatives are those of RecurrentShape.
template <typename B>
using RecurrentWeights = std::variant<std::monostate, ShortConvWeights<B>, SelectiveScanWeights<B>,
                                      GatedDeltaNetWeights<B>>;

}  // namespace foredraft::inline v0
