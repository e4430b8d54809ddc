#pragma once

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
};

FloatKernels kernels_by_hand();
FloatKernels kernels_of_xsimd();
