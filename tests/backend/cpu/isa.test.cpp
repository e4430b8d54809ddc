#include <foredraft/backend/cpu/isa.hpp>

#include <algorithm>
#include <iterator>
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

TEST_CASE("a machine that runs a set runs those that it includes") {
  for (const cpu::Isa wide : cpu::executable_isas()) {
    for (const cpu::Isa narrow : cpu::kAllIsas) {
      CAPTURE(cpu::name_of(wide), cpu::name_of(narrow));
      CHECK((!cpu::includes(wide, narrow) || cpu::executable(narrow)));
    }
  }
}

TEST_CASE("a set includes what its flags allow, and no set of another branch") {
  using cpu::Isa;
  for (const Isa isa : cpu::kAllIsas) {
    CHECK(cpu::includes(isa, isa));
    CHECK(cpu::includes(isa, Isa::kPortable));
    if (isa != Isa::kPortable) CHECK_FALSE(cpu::includes(Isa::kPortable, isa));
  }
  CHECK(cpu::includes(Isa::kAvxVnni, Isa::kAvx2));
  CHECK(cpu::includes(Isa::kAvx512, Isa::kAvx2));
  CHECK(cpu::includes(Isa::kAvx512Vnni, Isa::kAvx512));
  CHECK_FALSE(cpu::includes(Isa::kAvx512, Isa::kAvx512Vnni));
  CHECK_FALSE(cpu::includes(Isa::kAvx512, Isa::kAvxVnni));
  CHECK_FALSE(cpu::includes(Isa::kAvx512Vnni, Isa::kAvxVnni));
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Vnni}) {
    CHECK_FALSE(cpu::includes(Isa::kNeon, isa));
    CHECK_FALSE(cpu::includes(isa, Isa::kNeon));
  }
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
  for (const cpu::Isa isa : cpu::kAllIsas) names.insert(cpu::name_of(isa));
  CHECK(names.size() == std::size(cpu::kAllIsas));
  CHECK(names.count("unknown") == 0);
}
