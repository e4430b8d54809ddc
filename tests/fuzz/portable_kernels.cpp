// The kernels of one instruction set in the place of foredraft::compiled. With sanitizers each set
// takes half a minute to compile, and what hostile sizes do to kernels shows in any of them.
#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& portable_kernels() noexcept { return kernel_table<Portable>(); }

#if defined(__x86_64__)
const KernelTable& avx2_kernels() noexcept { return portable_kernels(); }
const KernelTable& avx_vnni_kernels() noexcept { return portable_kernels(); }
const KernelTable& avx512_kernels() noexcept { return portable_kernels(); }
const KernelTable& avx512_vnni_kernels() noexcept { return portable_kernels(); }
MatmulKernel amx_matmul_kernel() noexcept { return portable_kernels().matmul; }
#elif defined(__aarch64__)
const KernelTable& neon_kernels() noexcept { return portable_kernels(); }
#endif

}  // namespace foredraft::inline v0::cpu
