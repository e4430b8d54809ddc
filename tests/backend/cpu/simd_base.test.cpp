#include <foredraft/backend/cpu/simd_base.hpp>

#include <cstddef>
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
  cpu::fetch_ahead(&here, cpu::kOneRowAhead);
  cpu::fetch_ahead(nullptr, cpu::kRowsAhead);
  for (int part = 0; part < 16; ++part)
    cpu::fetch_part_ahead<3392, 16>(&here, part, cpu::kRowsAhead);
  CHECK(here == std::byte{7});
}
