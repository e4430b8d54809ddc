#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

const KernelTable& avx512_vnni_kernels() noexcept { return kernel_table<Avx512Vnni>(); }

}  // namespace foredraft::inline v0::cpu
