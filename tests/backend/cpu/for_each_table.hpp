#pragma once

#include <string>

#include <foredraft/backend/cpu/kernel_table.hpp>

#include "support/catch.hpp"

/// Run a check with the kernels of every instruction set that the program holds and this machine
/// executes. Those that it does not are named by the tests of backend/cpu/kernel_table.test.cpp.
template <typename Check>
void for_each_table(Check&& check) {
  for (const foredraft::cpu::KernelTable* table : foredraft::cpu::available_tables()) {
    const std::string isa(foredraft::cpu::name_of(table->isa));
    if (!foredraft::cpu::executable(table->isa)) {
      WARN("not run: this machine does not execute " + isa);
      continue;
    }
    CAPTURE(isa);
    check(*table);
  }
}
