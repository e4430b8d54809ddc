#include <foredraft/backend/cpu/query_tile.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("heads are padded to whole vectors of 16") {
  CHECK(fd::cpu::QueryTile::padded(1) == 16);
  CHECK(fd::cpu::QueryTile::padded(16) == 16);
  CHECK(fd::cpu::QueryTile::padded(40) == 48);
  CHECK(fd::cpu::QueryTile::padded(256) == 256);
}

TEST_CASE("a number of queries becomes one that the compiler knows, and nothing else is called") {
  using Arch = fd::cpu::NativeArch;
  for (int n = 0; n <= fd::cpu::kQueriesAtOnce<Arch> + 1; ++n) {
    std::vector<int> called;
    fd::cpu::with_query_count<Arch>(n, [&](auto q) {
      constexpr int kCount = q;
      called.push_back(kCount);
    });
    const bool known = n >= 1 && n <= fd::cpu::kQueriesAtOnce<Arch>;
    CHECK(called == (known ? std::vector{n} : std::vector<int>{}));
  }
}
