#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& avx512_kernels() noexcept { return kernel_table<Avx512>(); }

}  // namespace foredraft::inline v0::cpu
