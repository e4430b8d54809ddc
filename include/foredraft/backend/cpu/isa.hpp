#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <foredraft/backend/cpu/amx_unit.hpp>

namespace foredraft::inline v0::cpu {

/// Instruction sets with kernels of their own. Within a processor family the later one is the one
/// to use where a machine runs several; it need not contain all earlier ones: includes().
enum class Isa : std::uint8_t {
  kPortable,    ///< whatever the compiler was told to use
  kAvx2,        ///< x86-64-v3: AVX2, FMA, F16C
  kAvxVnni,     ///< x86-64-v3 and the int8 dot product in its VEX encoding
  kAvx512,      ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
  kAvx512Vnni,  ///< x86-64-v4 and the int8 dot product
  kAmx,         ///< kAvx512Vnni and int8 tiles for matrix products of several rows, the same bits
  kNeon,        ///< Armv8.2-A with the int8 dot product
};
inline constexpr Isa kAllIsas[] = {Isa::kPortable,   Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512,
                                   Isa::kAvx512Vnni, Isa::kAmx,  Isa::kNeon};

constexpr std::string_view name_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvxVnni: return "avx-vnni";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512-vnni";
    case Isa::kAmx: return "amx";
    case Isa::kNeon: return "neon";
  }
  return "unknown";
}

/// Whether all that has `wide` has `narrow` too, compiler flags and machines alike. The order alone
/// does not say it: many a processor has AVX-512 and VNNI, but no AVX-VNNI.
constexpr bool includes(Isa wide, Isa narrow) noexcept {
  if (narrow == wide || narrow == Isa::kPortable) return true;
  if (narrow == Isa::kAvxVnni || wide == Isa::kNeon) return false;
  return narrow < wide;
}

/// The widest set of vectors that the flags of this translation unit allow; kAmx has those of
/// kAvx512Vnni. Internal linkage on purpose: it differs from unit to unit.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
constexpr Isa kBuildIsa = Isa::kAvx512Vnni;
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
constexpr Isa kBuildIsa = Isa::kAvx512;
#elif defined(__AVXVNNI__) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
constexpr Isa kBuildIsa = Isa::kAvxVnni;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
constexpr Isa kBuildIsa = Isa::kAvx2;
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
constexpr Isa kBuildIsa = Isa::kNeon;
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
  static constexpr bool kCompilable =
      includes(build, isa);  // can this unit instantiate its kernels
};

using Portable = InstructionSet<Isa::kPortable, kBuildIsa>;
using Avx2 = InstructionSet<Isa::kAvx2, kBuildIsa>;
using AvxVnni = InstructionSet<Isa::kAvxVnni, kBuildIsa>;
using Avx512 = InstructionSet<Isa::kAvx512, kBuildIsa>;
using Avx512Vnni = InstructionSet<Isa::kAvx512Vnni, kBuildIsa>;
using Neon = InstructionSet<Isa::kNeon, kBuildIsa>;
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
    case Isa::kAvxVnni: {
      // Not a name that clang 14 knows. A processor without the subleaf answers with zeros.
      unsigned a = 0, b = 0, c = 0, d = 0;
      return v3 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
    }
    case Isa::kAvx512: return v4;
    case Isa::kAvx512Vnni: return v4 && __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx: return v4 && __builtin_cpu_supports("avx512vnni") && amx_usable();
    case Isa::kNeon: return false;
  }
  return false;
#elif defined(__aarch64__) && defined(__linux__)
  return isa == Isa::kPortable || (isa == Isa::kNeon && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0);
#elif defined(__aarch64__) && defined(__APPLE__)
  return isa == Isa::kPortable || isa == Isa::kNeon;  // every Mac with an Arm processor has it
#else
  return isa == Isa::kPortable;
#endif
}

/// All sets this machine runs, in the order of Isa; back() is the one to use.
inline std::vector<Isa> executable_isas() {
  std::vector<Isa> found;
  for (const Isa isa : kAllIsas) {
    if (executable(isa)) found.push_back(isa);
  }
  return found;
}

}  // namespace foredraft::inline v0::cpu
