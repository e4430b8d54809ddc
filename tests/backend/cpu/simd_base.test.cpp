#include <foredraft/backend/cpu/simd_base.hpp>

#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace cpu = foredraft::cpu;

TEST_CASE("unroll counts up, and every index is a constant") {
  std::vector<int> seen;
  cpu::unroll<5>([&](auto i) {
    static_assert(decltype(i)::value < 5);
    seen.push_back(i);
  });
  CHECK(seen == std::vector<int>{0, 1, 2, 3, 4});
  cpu::unroll<0>([&](auto i) { seen.push_back(i); });
  CHECK(seen.size() == 5);
}

TEST_CASE("any address may be fetched") {
  const std::byte here{7};
  cpu::prefetch(&here, 0);
  cpu::prefetch(&here, std::numeric_limits<std::size_t>::max());
  cpu::prefetch(nullptr, 1);
  CHECK(here == std::byte{7});
}
