#include <foredraft/backend/cpu/kernel_table.hpp>

#include <vector>

#include "support/catch.hpp"

namespace cpu = foredraft::cpu;

TEST_CASE("tables come in the order of Isa, and one of them is executable") {
  const auto tables = cpu::available_tables();
  REQUIRE_FALSE(tables.empty());
  for (std::size_t i = 1; i < tables.size(); ++i) CHECK(tables[i - 1]->isa < tables[i]->isa);
  CHECK(cpu::executable(tables.front()->isa));
}

TEST_CASE("every table is whole") {
  for (const cpu::KernelTable* table : cpu::available_tables()) {
    CHECK(table->quantize_row != nullptr);
    CHECK(table->matmul != nullptr);
    CHECK(table->rms_norm != nullptr);
    CHECK(table->rope != nullptr);
    CHECK(table->store_half != nullptr);
    CHECK(table->attend_float != nullptr);
    CHECK(table->attend_half != nullptr);
    CHECK(table->attend_q8_0 != nullptr);
    CHECK(table->gated_activation != nullptr);
    CHECK(table->argmax != nullptr);
  }
}

#if defined(FOREDRAFT_COMPILED)
TEST_CASE("the compiled library holds every instruction set of the processor family") {
  using cpu::Isa;
#if defined(__x86_64__)
  const std::vector<Isa> expected{Isa::kPortable, Isa::kAvx2,       Isa::kAvxVnni,
                                  Isa::kAvx512,   Isa::kAvx512Vnni, Isa::kAmx};
#elif defined(__aarch64__)
  const std::vector<Isa> expected{Isa::kPortable, Isa::kNeon};
#else
  const std::vector<Isa> expected{Isa::kPortable};
#endif
  std::vector<Isa> found;
  for (const cpu::KernelTable* table : cpu::available_tables()) found.push_back(table->isa);
  CHECK(found == expected);
}
#endif
