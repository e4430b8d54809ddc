#include <foredraft/backend/cpu/amx_matmul.hpp>

#include "backend/cpu/emulated_tiles.hpp"

namespace amx_under_test {

namespace cpu = foredraft::cpu;

void emulated_matmul(Matmul few, const cpu::PackedPanels& w, const cpu::Activations& a,
                     int panel_begin, int panel_end, float* out, std::size_t ld_out,
                     cpu::Epilogue epilogue) noexcept {
#if defined(__AVX512VNNI__)
  cpu::amx_matmul<cpu::Avx512Vnni, EmulatedTiles>(few, w, a, panel_begin, panel_end, out, ld_out,
                                                  epilogue);
#else
  few(w, a, panel_begin, panel_end, out, ld_out, epilogue);  // no kernels of `amx` here
#endif
}

}  // namespace amx_under_test
