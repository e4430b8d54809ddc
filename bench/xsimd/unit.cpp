// One vocabulary for each object, so that `nm` tells what each of them leaves behind.
#include "unit.hpp"

#if defined(FOREDRAFT_TRIAL_XSIMD)
#include "vec16_xsimd.hpp"
using Arch = XsimdArch;
#define FOREDRAFT_TRIAL_KERNELS kernels_of_xsimd
#else
#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/norm.hpp>
using Arch = foredraft::cpu::NativeArch;
#define FOREDRAFT_TRIAL_KERNELS kernels_by_hand
#endif

namespace {

namespace cpu = foredraft::cpu;

float softmax(float* scores, int n) noexcept {
  using V = cpu::Vec16<Arch>;
  float greatest = -__builtin_inff();
  V sums = V::zero();
  for (int begin = 0; begin < n; begin += 32) {
    const V low = V::load(scores + begin);
    const V high = V::load(scores + begin + 16);
    const float most = max(low, high).greatest();
    if (most > greatest) {
      sums = sums * exp<Arch>(V::broadcast(greatest - most));
      greatest = most;
    }
    const V shift = V::broadcast(greatest);
    const V p_low = exp<Arch>(low - shift);
    const V p_high = exp<Arch>(high - shift);
    p_low.store(scores + begin);
    p_high.store(scores + begin + 16);
    sums = sums + p_low + p_high;
  }
  return sums.sum();
}

}  // namespace

FloatKernels FOREDRAFT_TRIAL_KERNELS() {
  return {.name = FOREDRAFT_TRIAL_NAME,
          .rms_norm = &cpu::rms_norm<Arch>,
          .rope = &cpu::rope<Arch>,
          .gated_activation = &cpu::gated_activation<Arch>,
          .soft_cap = &cpu::soft_cap<Arch>,
          .softmax = &softmax};
}
