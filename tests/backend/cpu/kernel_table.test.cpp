#include <foredraft/backend/cpu/kernel_table.hpp>

#include "support/catch.hpp"

namespace cpu = foredraft::cpu;

TEST_CASE("tables come narrowest first, and one of them is executable") {
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
    CHECK(table->gated_activation != nullptr);
    CHECK(table->argmax != nullptr);
  }
}

#if defined(FOREDRAFT_COMPILED) && defined(__x86_64__)
TEST_CASE("the compiled library holds every instruction set of the processor family") {
  CHECK(cpu::available_tables().size() == 5);
  CHECK(cpu::portable_kernels().isa == cpu::Isa::kPortable);
  CHECK(cpu::avx2_kernels().isa == cpu::Isa::kAvx2);
  CHECK(cpu::avx512_kernels().isa == cpu::Isa::kAvx512);
  CHECK(cpu::avx512_vnni_kernels().isa == cpu::Isa::kAvx512Vnni);
  CHECK(cpu::amx_kernels().isa == cpu::Isa::kAmx);
}
#endif
