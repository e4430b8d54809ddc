#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& avx_vnni_kernels() noexcept { return kernel_table<AvxVnni>(); }

}  // namespace foredraft::inline v0::cpu
