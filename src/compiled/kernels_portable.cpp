#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& portable_kernels() noexcept { return kernel_table<Portable>(); }

}  // namespace foredraft::inline v0::cpu
