#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& avx2_kernels() noexcept { return kernel_table<Avx2>(); }

}  // namespace foredraft::inline v0::cpu
