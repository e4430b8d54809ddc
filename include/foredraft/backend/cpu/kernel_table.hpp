#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <foredraft/backend/cpu/amx_matmul.hpp>
#include <foredraft/backend/cpu/amx_unit.hpp>
#include <foredraft/backend/cpu/attention.hpp>
#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/isa.hpp>
#include <foredraft/backend/cpu/matmul.hpp>
#include <foredraft/backend/cpu/norm.hpp>
#include <foredraft/backend/cpu/recurrence.hpp>
#include <foredraft/backend/ops.hpp>

namespace foredraft::inline v0::cpu {

/// The kernels of one instruction set. Everything else is compiled once, for any machine, and calls
/// them through this table: docs/design/decisions/0001-instruction-sets-through-a-table.md.
struct KernelTable {
  Isa isa;
  void (*quantize_row)(const float* x, const Activations& a, int row, int begin, int end) noexcept;
  void (*matmul)(const PackedPanels& w, const Activations& a, int panel_begin, int panel_end,
                 float* out, std::size_t ld_out, Epilogue epilogue) noexcept;
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int n, float* y) noexcept;
  void (*rope)(RopeKind kind, int n_rot, const float* cos, const float* sin, float* head) noexcept;
  void (*store_half)(const float* from, int n, std::uint16_t* to) noexcept;
  void (*attend)(const AttendTask& task) noexcept;
  void (*gated_activation)(Activation activation, float* gate, const float* up, int n) noexcept;
  void (*soft_cap)(float* values, int n, float cap) noexcept;
  float (*argmax)(const float* values, int n, TokenId first_id, Best& best) noexcept;
  void (*convolve)(const ConvolveTask& task) noexcept;
  void (*scan_step)(const ScanStep& step) noexcept;
  void (*set_length)(float* x, int n, float epsilon, float length) noexcept;
  void (*delta_step)(const DeltaStep& step) noexcept;
};

/// The table of an instruction set that this unit can compile.
template <class Arch>
const KernelTable& kernel_table() noexcept {
  static_assert(Arch::kCompilable,
                "the flags of this translation unit do not allow this instruction set");
  static constexpr KernelTable table{
      .isa = Arch::kIsa,
      .quantize_row = &cpu::quantize_row<Arch>,
      .matmul = &cpu::matmul<Arch>,
      .rms_norm = &cpu::rms_norm<Arch>,
      .rope = &cpu::rope<Arch>,
      .store_half = &cpu::store_half<Arch>,
      .attend = &cpu::attend<Arch>,
      .gated_activation = &cpu::gated_activation<Arch>,
      .soft_cap = &cpu::soft_cap<Arch>,
      .argmax = &cpu::argmax<Arch>,
      .convolve = &cpu::convolve<Arch>,
      .scan_step = &cpu::scan_step<Arch>,
      .set_length = &cpu::set_length<Arch>,
      .delta_step = &cpu::delta_step<Arch>,
  };
  return table;
}

using MatmulKernel = decltype(KernelTable::matmul);

#if defined(__AVX512VNNI__)
/// Tile products where there are several rows, and else the matrix product of the table `base`.
template <class Arch, const KernelTable& (*base)() noexcept>
void matmul_with_tiles(const PackedPanels& w, const Activations& a, int panel_begin, int panel_end,
                       float* out, std::size_t ld_out, Epilogue epilogue) noexcept {
  amx_matmul<Arch, AmxTiles>(base().matmul, w, a, panel_begin, panel_end, out, ld_out, epilogue);
}
#endif

/// The table for AMX. It is put together by code that any machine runs, not in the unit of its
/// kernels: whoever looks for a table that the machine executes comes by here on every machine.
inline KernelTable table_with_tiles(const KernelTable& base, MatmulKernel matmul) noexcept {
  KernelTable table = base;
  table.isa = Isa::kAmx;
  table.matmul = matmul;
  return table;
}

#if defined(FOREDRAFT_COMPILED)
// Each is defined by a unit of its own in the library foredraft::compiled, and only returns what is
// constant: no instruction of its kernels runs before executable() was asked.
const KernelTable& portable_kernels() noexcept;
#if defined(__x86_64__)
const KernelTable& avx2_kernels() noexcept;
const KernelTable& avx_vnni_kernels() noexcept;
const KernelTable& avx512_kernels() noexcept;
const KernelTable& avx512_vnni_kernels() noexcept;
MatmulKernel amx_matmul_kernel() noexcept;
inline const KernelTable& amx_kernels() noexcept {
  static const KernelTable table = table_with_tiles(avx512_vnni_kernels(), amx_matmul_kernel());
  return table;
}
#elif defined(__aarch64__)
const KernelTable& neon_kernels() noexcept;
#endif
#endif

/// The tables that this program holds, in the order of Isa.
///
/// With foredraft::compiled these are all instruction sets of the processor family, or those that
/// FOREDRAFT_NARROW_KERNELS leaves (cmake/foredraft_kernels.cmake). Without it, it is the one that
/// the program's own flags name, for AMX also the one without; all its units that use Cpu must then
/// be compiled with the same flags.
inline std::vector<const KernelTable*> available_tables() {
#if !defined(FOREDRAFT_COMPILED) && defined(__AVX512VNNI__) && \
    (defined(__AMX_INT8__) || defined(__AMXINT8__))  // clang 14 spells it so
  static const KernelTable amx = table_with_tiles(
      kernel_table<NativeArch>(), &matmul_with_tiles<NativeArch, &kernel_table<NativeArch>>);
  return {&kernel_table<NativeArch>(), &amx};
#elif !defined(FOREDRAFT_COMPILED)
  return {&kernel_table<NativeArch>()};
#elif defined(__x86_64__) && defined(FOREDRAFT_NARROW_KERNELS)
  return {&portable_kernels(), &avx2_kernels()};
#elif defined(__x86_64__)
  return {&portable_kernels(), &avx2_kernels(),        &avx_vnni_kernels(),
          &avx512_kernels(),   &avx512_vnni_kernels(), &amx_kernels()};
#elif defined(__aarch64__) && !defined(FOREDRAFT_NARROW_KERNELS)
  return {&portable_kernels(), &neon_kernels()};
#else
  return {&portable_kernels()};
#endif
}

}  // namespace foredraft::inline v0::cpu
