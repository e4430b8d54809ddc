#pragma once

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/ops.hpp>

namespace foredraft::inline v0::cuda {

template <typename T>
FOREDRAFT_DEVICE float activated(T& t, Activation activation, float x) {
  switch (activation) {
    case Activation::kGeluTanh: {
      constexpr float kSqrt2OverPi = 0.797884561f;
      const float inner = t.mul(kSqrt2OverPi, t.fma(t.mul(0.044715f, t.mul(x, x)), x, x));
      return t.mul(t.mul(0.5f, x), t.add(1.0f, t.tanh(inner)));
    }
    case Activation::kReluSquared: return x <= 0.0f ? 0.0f : t.mul(x, x);  // NaN stays
    case Activation::kSilu: return t.divide(x, t.add(1.0f, t.exp(-x)));
    case Activation::kSigmoid: break;
  }
  return t.divide(1.0f, t.add(1.0f, t.exp(-x)));
}

/// log(1 + exp(x)); from 20 on the sum rounds to x.
template <typename T>
FOREDRAFT_DEVICE float softplus(T& t, float x) {
  return x > 20.0f ? x : t.log1p(t.exp(x));
}

}  // namespace foredraft::inline v0::cuda
