#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <foredraft/backend/cpu/amx_unit.hpp>

namespace foredraft::inline v0::cpu {

/// Instruction sets with kernels of their own, narrowest first.
enum class Isa : std::uint8_t {
  kPortable,    ///< whatever the compiler was told to use
  kAvx2,        ///< x86-64-v3: AVX2, FMA, F16C
  kAvx512,      ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
  kAvx512Vnni,  ///< x86-64-v4 and the int8 dot product
  kAmx,         ///< kAvx512Vnni and int8 tiles for matrix products of several rows, the same bits
};

constexpr std::string_view name_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512-vnni";
    case Isa::kAmx: return "amx";
  }
  return "unknown";
}

/// The widest set of vectors that the flags of this translation unit allow; kAmx has those of
/// kAvx512Vnni. Internal linkage on purpose: it differs from unit to unit.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
constexpr Isa kBuildIsa = Isa::kAvx512Vnni;
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
constexpr Isa kBuildIsa = Isa::kAvx512;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
constexpr Isa kBuildIsa = Isa::kAvx2;
#else
constexpr Isa kBuildIsa = Isa::kPortable;
#endif

/// Tag of an instruction set, the `Arch` of every kernel template.
///
/// `build` makes the tag another type in units compiled with other flags. Otherwise two units would
/// both emit `matmul<Portable>`, the linker would keep either, and an old machine could be handed
/// the AVX-512 copy.
template <Isa isa, Isa build>
struct InstructionSet {
  static constexpr Isa kIsa = isa;
  static constexpr bool kCompilable = isa <= build;  // can this unit instantiate its kernels
};

using Portable = InstructionSet<Isa::kPortable, kBuildIsa>;
using Avx2 = InstructionSet<Isa::kAvx2, kBuildIsa>;
using Avx512 = InstructionSet<Isa::kAvx512, kBuildIsa>;
using Avx512Vnni = InstructionSet<Isa::kAvx512Vnni, kBuildIsa>;
using NativeArch = InstructionSet<kBuildIsa, kBuildIsa>;

/// Whether processor and operating system of this machine run an instruction set.
inline bool executable(Isa isa) noexcept {
#if defined(__x86_64__) || defined(__i386__)
  // The compiler may use all of x86-64-v3 in an AVX2 unit; every processor with AVX2, FMA and BMI2
  // has the rest of it.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kPortable: return true;
    case Isa::kAvx2: return v3;
    case Isa::kAvx512: return v4;
    case Isa::kAvx512Vnni: return v4 && __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx: return v4 && __builtin_cpu_supports("avx512vnni") && amx_usable();
  }
  return false;
#else
  return isa == Isa::kPortable;
#endif
}

/// All sets this machine runs, narrowest first; back() is the one to use.
inline std::vector<Isa> executable_isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (executable(isa)) found.push_back(isa);
  }
  return found;
}

}  // namespace foredraft::inline v0::cpu
