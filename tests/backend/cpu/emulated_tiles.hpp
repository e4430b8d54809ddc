#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/amx_unit.hpp>
#include <foredraft/backend/cpu/matmul.hpp>

namespace amx_under_test {

/// Mistakes that the emulation can make on purpose, to see that tests notice them.
enum class Mistake {
  kNone,
  kActivationsLate,  ///< activations begin 4 k late: the border of every sub-block is off
  kWeightsLate,      ///< codes begin 4 k late
  kLastUnitMissing,  ///< the last 4 k of every product are left out
  kRowsShifted,      ///< each row of activations is the next one
  kOtherSign,        ///< codes signed for unsigned and the other way round
  kSumsKept,         ///< sums do not begin at zero
  kRowNotStored,     ///< the last row of sums
};

/// The tile registers and what the instructions do to them, word for word as in Intel's manual
/// (volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD).
///
/// Defined in a unit that is compiled for the baseline: kernels under test call it, whatever their
/// flags. What would be an exception of the processor counts as a fault and does nothing.
class EmulatedUnit {
 public:
  EmulatedUnit() = default;
  EmulatedUnit(const EmulatedUnit&) = delete;
  EmulatedUnit& operator=(const EmulatedUnit&) = delete;
  ~EmulatedUnit();

  void configure(const void* config) noexcept;
  void release() noexcept;
  void zero(int tile) noexcept;
  void load(int tile, const void* from, std::size_t stride) noexcept;
  void store(int tile, void* to, std::size_t stride) noexcept;
  void dot(int c, int a, int b, bool a_signed, bool b_signed) noexcept;

  std::uint8_t* row(int tile, int m) noexcept { return data_[tile][m]; }

  struct Record {
    int faults = 0;
    const char* first_fault = "";
    int configured = 0;  // units that hold a configuration now
    long long dots = 0;
    Mistake mistake = Mistake::kNone;
  };
  static Record& record() noexcept;

 private:
  bool usable(int tile) noexcept;

  foredraft::cpu::AmxConfig config_{.palette = 0};
  std::uint8_t data_[8][16][64] = {};
};

/// In place of foredraft::cpu::AmxTiles.
struct EmulatedTiles {
  EmulatedUnit unit;

  [[gnu::always_inline]] void configure(const foredraft::cpu::AmxConfig& config) noexcept {
    unit.configure(&config);
  }
  [[gnu::always_inline]] void release() noexcept { unit.release(); }
  template <int tile>
  [[gnu::always_inline]] void zero() noexcept {
    unit.zero(tile);
  }
  template <int tile>
  [[gnu::always_inline]] void load(const void* from, std::size_t stride) noexcept {
    unit.load(tile, from, stride);
  }
  template <int tile>
  [[gnu::always_inline]] void store(void* to, std::size_t stride) noexcept {
    unit.store(tile, to, stride);
  }
  template <int c, int a, int b>
  [[gnu::always_inline]] void dot_signed() noexcept {
    unit.dot(c, a, b, true, true);
  }
  template <int c, int a, int b>
  [[gnu::always_inline]] void dot_unsigned() noexcept {
    unit.dot(c, a, b, true, false);
  }
};

using Matmul = void (*)(const foredraft::cpu::PackedPanels& w, const foredraft::cpu::Activations& a,
                        int panel_begin, int panel_end, float* out, std::size_t ld_out,
                        foredraft::cpu::Epilogue epilogue) noexcept;

/// The kernels of `amx` with emulated tiles; the machine must execute `avx512-vnni`.
/// @param few  the matrix product of `avx512-vnni`
void emulated_matmul(Matmul few, const foredraft::cpu::PackedPanels& w,
                     const foredraft::cpu::Activations& a, int panel_begin, int panel_end,
                     float* out, std::size_t ld_out, foredraft::cpu::Epilogue epilogue) noexcept;

/// While it lives, tile instructions that the processor does not know are emulated: it raises
/// SIGILL for each of them. So the kernels that are shipped run, as they were assembled. For one
/// thread.
class Trap {
 public:
  static bool possible() noexcept;
  Trap();
  ~Trap();
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;
};

}  // namespace amx_under_test
