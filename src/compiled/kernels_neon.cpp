#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& neon_kernels() noexcept { return kernel_table<Neon>(); }

}  // namespace foredraft::inline v0::cpu
