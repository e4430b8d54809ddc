#include <foredraft/cache/storage.hpp>

#include <type_traits>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a format stands for the processor's rows, a storage for itself") {
  static_assert(std::is_same_v<fd::RowsIn<fd::f16>, fd::cpu::Rows<fd::f16>>);
  static_assert(std::is_same_v<fd::RowsIn<fd::q8_0>, fd::cpu::Rows<fd::q8_0>>);
  static_assert(std::is_same_v<fd::RowsIn<float>, fd::cpu::Rows<float>>);
  static_assert(std::is_same_v<fd::RowsIn<fd::cpu::Rows<float>>, fd::cpu::Rows<float>>);
}
