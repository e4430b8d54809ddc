#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace foredraft::inline v0::cpu {

/// Shapes of the eight tile registers, as `ldtilecfg` reads them. A tile is up to 16 rows of up to
/// 64 bytes; one of no rows is not used.
/// @source Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18
struct alignas(64) AmxConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  [[gnu::always_inline]] constexpr void set(int tile, int n_rows, int n_bytes) noexcept {
    rows[tile] = static_cast<std::uint8_t>(n_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(n_rows == 0 ? 0 : n_bytes);
  }
};
static_assert(sizeof(AmxConfig) == 64);

#if defined(__x86_64__)
/// The tile registers of the thread. For units compiled with -mamx-tile and -mamx-int8.
///
/// Not the compiler's intrinsics: GCC 12 does not know that _tile_loadd reads memory, nor that
/// _tile_loadconfig reads more than eight bytes, so stores before them may be moved or dropped; and
/// the number of a tile has to be a literal there.
struct AmxTiles {
  /// All tiles become zero.
  [[gnu::always_inline]] void configure(const AmxConfig& config) noexcept {
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  /// Back to the initial state: what the thread leaves here, every context switch has to save.
  [[gnu::always_inline]] void release() noexcept { __asm__ volatile("tilerelease" : : : "memory"); }

  template <int tile>
  [[gnu::always_inline]] void zero() noexcept {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  /// @param stride  bytes from one row in memory to the next
  template <int tile>
  [[gnu::always_inline]] void load(const void* from, std::size_t stride) noexcept {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                     :
                     : "i"(tile), "r"(from), "r"(stride)
                     : "memory");
  }
  template <int tile>
  [[gnu::always_inline]] void store(void* to, std::size_t stride) noexcept {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                     :
                     : "i"(tile), "r"(to), "r"(stride)
                     : "memory");
  }
  /// c[m][n] += sum over k of a[m][k] * b[k / 4][n][k % 4], in int32; both signed.
  template <int c, int a, int b>
  [[gnu::always_inline]] void dot_signed() noexcept {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  /// The same with unsigned b.
  template <int c, int a, int b>
  [[gnu::always_inline]] void dot_unsigned() noexcept {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};
#endif

/// Whether processor and operating system let this process use int8 tiles.
///
/// Linux hands out the tile registers on request, once for a process and all its threads, because
/// they enlarge what a signal puts on the stack: this asks for them. It is refused to a process
/// that has an alternate signal stack too small for them.
/// @source https://docs.kernel.org/arch/x86/xstate.html
inline bool amx_usable() noexcept {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kOsXsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return false;
  constexpr unsigned kTileAndInt8 = 1u << 24 | 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kTileAndInt8) != kTileAndInt8) return false;
  unsigned enabled = 0, high = 0;
  __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 1u << 17 | 1u << 18;  // configuration and data
  if ((enabled & kTileState) != kTileState) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace foredraft::inline v0::cpu
