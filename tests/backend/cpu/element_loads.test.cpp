#include <foredraft/backend/cpu/element_loads.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

// In the instruction set that this file is compiled for; attention.test.cpp covers the others.
TEMPLATE_TEST_CASE("elements are loaded as floats, sixteen at a time and one by one", "", float,
                   fd::f16) {
  using Loads = fd::cpu::ElementLoads<fd::cpu::NativeArch>;
  std::vector<TestType> stored;
  for (int i = 0; i < 64; ++i) stored.push_back(TestType(static_cast<float>(i - 20) * 0.25f));
  std::vector<float> values(64, -1.0f);
  fd::cpu::load_floats<fd::cpu::NativeArch>(stored.data(), 48, values.data());
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(values[i] == (i < 48 ? static_cast<float>(stored[i]) : -1.0f));
    CHECK(Loads::value_of(stored[i]) == static_cast<float>(stored[i]));
  }
}
