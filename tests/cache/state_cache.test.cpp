#include <foredraft/cache/state_cache.hpp>

#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("caches with states are told from those of keys and values alone") {
  STATIC_REQUIRE(fd::StateCache<fd::HybridCache<fd::f16>>);
  STATIC_REQUIRE(fd::StateCache<fd::HybridCache<float, fd::Slots>>);
  STATIC_REQUIRE(fd::KeyValueCache<fd::LinearCache<float>>);
  STATIC_REQUIRE_FALSE(fd::StateCache<fd::LinearCache<float>>);
  STATIC_REQUIRE_FALSE(fd::StateCache<fd::RotatingCache<float>>);
}
