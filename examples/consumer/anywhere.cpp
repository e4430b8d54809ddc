// A program that carries the kernels of every instruction set of its processor family and says
// which ones this machine executes. The flags that it is compiled with do not matter.

#include <foredraft/backend/cpu/cpu.hpp>

#include <iostream>

namespace fd = foredraft;

int main() {
  std::cout << "held:";
  for (const fd::cpu::KernelTable* table : fd::cpu::available_tables()) {
    std::cout << ' ' << fd::cpu::name_of(table->isa)
              << (fd::cpu::executable(table->isa) ? "" : " (not on this machine)");
  }
  std::cout << "\ntaken: " << fd::cpu::name_of(fd::Cpu{}.isa()) << '\n';
}
