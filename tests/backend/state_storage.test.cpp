#include <foredraft/backend/state_storage.hpp>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/host_states.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Says nothing of which states there are.
struct Unsaid : fd::Slots {
  using fd::Slots::Slots;
  void replays() const {}
};
/// Cannot take back what it copied.
struct OneWay : fd::Slots {
  using fd::Slots::Slots;
  void restore(std::span<const std::int32_t>, bool, std::span<const float>) = delete;
};

}  // namespace

TEST_CASE("storages of states are told from others") {
  STATIC_REQUIRE(fd::StateStorage<fd::Slots>);
  STATIC_REQUIRE(fd::StateStorage<fd::Replay>);
  STATIC_REQUIRE_FALSE(fd::StateStorage<Unsaid>);
  STATIC_REQUIRE_FALSE(fd::StateStorage<OneWay>);
  STATIC_REQUIRE_FALSE(fd::StateStorage<fd::cpu::Rows<float>>);
  CHECK(fd::Replay::replays);
  CHECK_FALSE(fd::Slots::replays);
}
