#include <foredraft/backend/cpu/isa.hpp>

#include <algorithm>
#include <set>
#include <string_view>
#include <type_traits>

#include "support/catch.hpp"

namespace cpu = foredraft::cpu;

TEST_CASE("the portable set runs everywhere and the list is sorted") {
  const auto isas = cpu::executable_isas();
  REQUIRE_FALSE(isas.empty());
  CHECK(isas.front() == cpu::Isa::kPortable);
  CHECK(std::is_sorted(isas.begin(), isas.end()));
  for (const cpu::Isa isa : isas) CHECK(cpu::executable(isa));
}

TEST_CASE("a machine that runs a set runs the narrower ones") {
  const auto isas = cpu::executable_isas();
  CHECK(isas.size() == static_cast<std::size_t>(isas.back()) + 1);
}

TEST_CASE("this program was built for a set that this machine runs") {
  CHECK(cpu::executable(cpu::NativeArch::kIsa));
  STATIC_REQUIRE(cpu::Portable::kCompilable);
  STATIC_REQUIRE(cpu::NativeArch::kCompilable);
}

TEST_CASE("tags of other build flags are other types") {
  using Elsewhere = cpu::InstructionSet<cpu::Isa::kPortable, cpu::Isa::kAvx512Vnni>;
  using Here = cpu::InstructionSet<cpu::Isa::kPortable, cpu::Isa::kPortable>;
  STATIC_REQUIRE_FALSE(std::is_same_v<Elsewhere, Here>);
}

TEST_CASE("names are distinct") {
  std::set<std::string_view> names;
  for (const cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512,
                             cpu::Isa::kAvx512Vnni, cpu::Isa::kAmx}) {
    names.insert(cpu::name_of(isa));
  }
  CHECK(names.size() == 5);
}
