#pragma once

#include <cstddef>

#include <foredraft/backend/ops.hpp>

/// The float kernels of a unit, in one of the two vocabularies.
struct FloatKernels {
  const char* name;
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int n, float* y) noexcept;
  void (*rope)(foredraft::RopeKind kind, int n_rot, const float* cos, const float* sin,
               float* head) noexcept;
  void (*gated_activation)(foredraft::Activation activation, float* gate, const float* up,
                           int n) noexcept;
  void (*soft_cap)(float* values, int n, float cap) noexcept;
  /// Scores of n positions, a multiple of 32, become weights; as attention does it, block by block
  /// with a running maximum. Their sum is returned.
  float (*softmax)(float* scores, int n) noexcept;
};

FloatKernels kernels_by_hand();
FloatKernels kernels_of_xsimd();

/// The weights of sampling, in double: see foredraft::exponentiate. Their sum is returned.
using Exponentiate = double(const float* x, std::size_t n, double greatest, double temperature,
                            double* out);
Exponentiate exponentiate_by_hand;
Exponentiate exponentiate_of_xsimd;
