#include <foredraft/cache/state_cache.hpp>

#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Good = fd::HybridCache<float>;

// Each lacks one thing.
struct NoStates : Good {
  void states() const = delete;
};
struct StatesThatThrow : Good {
  fd::StateRows states() const { return Good::states(); }
};
struct StatesOfAnotherType : Good {
  int states() const noexcept { return 0; }
};
struct NoLayer : Good {
  void state_layer(int) = delete;
};
struct LayerOfAnotherType : Good {
  float* state_layer(int) noexcept { return nullptr; }
};
struct NotTold : Good {
  void applied() = delete;
};
struct ToldWithThrow : Good {
  void applied() {}
};
struct UnknownStorage : Good {
  using States = int;
};

}  // namespace

TEST_CASE("caches with states are told from those of keys and values alone") {
  STATIC_REQUIRE(fd::StateCache<fd::HybridCache<fd::f16>>);
  STATIC_REQUIRE(fd::StateCache<fd::HybridCache<float, fd::Slots>>);
  STATIC_REQUIRE(fd::KeyValueCache<fd::LinearCache<float>>);
  STATIC_REQUIRE_FALSE(fd::StateCache<fd::LinearCache<float>>);
  STATIC_REQUIRE_FALSE(fd::StateCache<fd::RotatingCache<float>>);
}

TEST_CASE("a cache with states that lacks one thing of the concept is none") {
  struct Derived : Good {};
  STATIC_REQUIRE(fd::StateCache<Derived>);
  STATIC_REQUIRE_FALSE(fd::StateCache<NoStates>);
  STATIC_REQUIRE_FALSE(fd::StateCache<StatesThatThrow>);
  STATIC_REQUIRE_FALSE(fd::StateCache<StatesOfAnotherType>);
  STATIC_REQUIRE_FALSE(fd::StateCache<NoLayer>);
  STATIC_REQUIRE_FALSE(fd::StateCache<LayerOfAnotherType>);
  STATIC_REQUIRE_FALSE(fd::StateCache<NotTold>);
  STATIC_REQUIRE_FALSE(fd::StateCache<ToldWithThrow>);
  STATIC_REQUIRE_FALSE(fd::StateCache<UnknownStorage>);
}
