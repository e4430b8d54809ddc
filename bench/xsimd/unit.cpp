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

FloatKernels FOREDRAFT_TRIAL_KERNELS() {
  namespace cpu = foredraft::cpu;
  return {.name = FOREDRAFT_TRIAL_NAME,
          .rms_norm = &cpu::rms_norm<Arch>,
          .rope = &cpu::rope<Arch>,
          .gated_activation = &cpu::gated_activation<Arch>,
          .soft_cap = &cpu::soft_cap<Arch>};
}
