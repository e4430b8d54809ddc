#include <foredraft/backend/cpu/kernel_table.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/skip.hpp"

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
    CHECK(table->attend != nullptr);
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

// One test for each set, so that ctest's summary names those whose kernels were not run.

namespace {

void check_executed(cpu::Isa isa) {
  if (!cpu::executable(isa)) {
    return skip("this machine does not execute " + std::string(cpu::name_of(isa)));
  }
  const auto tables = cpu::available_tables();
  CHECK(
      std::any_of(tables.begin(), tables.end(), [isa](auto* table) { return table->isa == isa; }));
}

}  // namespace

TEST_CASE("the tests run kernels of portable") { check_executed(cpu::Isa::kPortable); }
#if defined(__x86_64__)
TEST_CASE("the tests run kernels of avx2") { check_executed(cpu::Isa::kAvx2); }
TEST_CASE("the tests run kernels of avx-vnni") { check_executed(cpu::Isa::kAvxVnni); }
TEST_CASE("the tests run kernels of avx512") { check_executed(cpu::Isa::kAvx512); }
TEST_CASE("the tests run kernels of avx512-vnni") { check_executed(cpu::Isa::kAvx512Vnni); }
TEST_CASE("the tests run kernels of amx") { check_executed(cpu::Isa::kAmx); }
#elif defined(__aarch64__)
TEST_CASE("the tests run kernels of neon") { check_executed(cpu::Isa::kNeon); }
#endif
#endif
