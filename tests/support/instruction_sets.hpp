#pragma once

#include <vector>

#include <foredraft/backend/cpu/kernel_table.hpp>

/// The instruction sets that this program holds and this machine executes, in the order of Isa;
/// back() is what Cpu takes. A program without foredraft::compiled holds one, or two with AMX.
inline std::vector<foredraft::cpu::Isa> usable_isas() {
  std::vector<foredraft::cpu::Isa> isas;
  for (const foredraft::cpu::KernelTable* table : foredraft::cpu::available_tables()) {
    if (foredraft::cpu::executable(table->isa)) isas.push_back(table->isa);
  }
  return isas;
}
