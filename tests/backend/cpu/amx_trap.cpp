#include "backend/cpu/emulated_tiles.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>

namespace amx_under_test {

namespace {

struct sigaction g_before;

EmulatedUnit& unit() {
  static EmulatedUnit unit;
  return unit;
}

/// One instruction of the form VEX (three bytes), opcode, ModRM and what belongs to it.
class Decoder {
 public:
  explicit Decoder(greg_t* registers)
      : registers_(registers), begin_(reinterpret_cast<const std::uint8_t*>(registers[REG_RIP])) {}

  /// @return whether it was a tile instruction
  bool run() {
    const std::uint8_t* at = begin_;
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2) return false;  // map 0F38
    const bool r = (at[1] & 0x80) == 0, x = (at[1] & 0x40) == 0, b = (at[1] & 0x20) == 0;
    if ((at[2] & 0x84) != 0 || r) return false;               // W, L; there are eight tiles
    const int vvvv = ~(at[2] >> 3) & 15, prefix = at[2] & 3;  // none, 66, F3, F2
    const int opcode = at[3], mod = at[4] >> 6, reg = at[4] >> 3 & 7, rm = at[4] & 7;
    if (mod == 3) {
      length_ = 5;
      return on_registers(opcode, prefix, reg, rm, vvvv) && advance();
    }
    find_address(at + 4, x, b);
    return on_memory(opcode, prefix, reg) && advance();
  }

 private:
  bool on_registers(int opcode, int prefix, int reg, int rm, int vvvv) {
    if (opcode == 0x49 && prefix == 0 && reg == 0 && rm == 0) {
      unit().release();
    } else if (opcode == 0x49 && prefix == 3 && rm == 0) {
      unit().zero(reg);
    } else if (opcode == 0x5e) {
      // TDPBUUD, TDPBUSD, TDPBSUD, TDPBSSD: the first letter is a (rm), the second b (vvvv).
      unit().dot(reg, rm, vvvv, prefix >= 2, prefix % 2 == 1);
    } else {
      return false;
    }
    return true;
  }

  bool on_memory(int opcode, int prefix, int reg) {
    if (opcode == 0x49 && prefix == 0 && reg == 0) {
      unit().configure(reinterpret_cast<const void*>(base_ + index_));
    } else if (opcode == 0x4b && prefix == 3 && has_index_) {
      unit().load(reg, reinterpret_cast<const void*>(base_), index_);
    } else if (opcode == 0x4b && prefix == 2 && has_index_) {
      unit().store(reg, reinterpret_cast<void*>(base_), index_);
    } else {
      return false;
    }
    return true;
  }

  std::uintptr_t value(int number) const {
    static constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uintptr_t>(registers_[kOrder[number]]);
  }

  void find_address(const std::uint8_t* modrm, bool x, bool b) {
    const int mod = *modrm >> 6, rm = *modrm & 7;
    const std::uint8_t* at = modrm + 1;
    bool has_base = true;
    int base = rm | b << 3;
    if (rm == 4) {
      const int sib = *at++;
      const int index = (sib >> 3 & 7) | x << 3;
      has_index_ = index != 4;
      if (has_index_) index_ = value(index) << (sib >> 6);
      base = (sib & 7) | b << 3;
      has_base = mod != 0 || (sib & 7) != 5;
    }
    const bool relative = mod == 0 && rm == 5;
    std::int64_t displacement = 0;
    if (mod == 1) displacement = static_cast<std::int8_t>(*at++);
    if (mod == 2 || relative || !has_base) {
      std::int32_t wide;
      std::memcpy(&wide, at, 4);
      displacement = wide;
      at += 4;
    }
    length_ = at - begin_;
    if (relative) {
      base_ = reinterpret_cast<std::uintptr_t>(at);
    } else if (has_base) {
      base_ = value(base);
    }
    base_ += static_cast<std::uintptr_t>(displacement);
  }

  bool advance() {
    registers_[REG_RIP] += length_;
    return true;
  }

  greg_t* registers_;
  const std::uint8_t* begin_;
  std::ptrdiff_t length_ = 0;
  std::uintptr_t base_ = 0, index_ = 0;
  bool has_index_ = false;
};

void on_illegal_instruction(int, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (Decoder(registers).run()) return;
  // Something else: it happens again, and ends the program as it would have.
  sigaction(SIGILL, &g_before, nullptr);
}

}  // namespace

bool Trap::possible() noexcept { return true; }

Trap::Trap() {
  unit();
  struct sigaction action{};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGILL, &action, &g_before) != 0) std::abort();
}

Trap::~Trap() { sigaction(SIGILL, &g_before, nullptr); }

}  // namespace amx_under_test

#else

namespace amx_under_test {

bool Trap::possible() noexcept { return false; }
Trap::Trap() = default;
Trap::~Trap() = default;

}  // namespace amx_under_test

#endif
