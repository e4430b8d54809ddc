#include <foredraft/backend/cpu/kernel_table.hpp>

namespace foredraft::inline v0::cpu {

// Only tile products are compiled here; everything else is the unit without AMX.
const KernelTable& amx_kernels() noexcept {
  return AmxTable<Avx512Vnni, &avx512_vnni_kernels>::table();
}

}  // namespace foredraft::inline v0::cpu
