#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

// Only tile products are compiled here; everything else is the unit without AMX.
MatmulKernel amx_matmul_kernel() noexcept {
  return &matmul_with_tiles<Avx512Vnni, &avx512_vnni_kernels>;
}

}  // namespace foredraft::inline v0::cpu
