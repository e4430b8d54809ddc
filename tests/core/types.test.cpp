#include <foredraft/core/types.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

// Caches and trees rely on this: an index cannot be mistaken for "follows the committed rows", and
// a node that says nothing else is a root.
static_assert(fd::kCommitted < 0);
static_assert(fd::Node{7}.parent == fd::kCommitted);

TEST_CASE("nodes differ by token and by parent") {
  CHECK(fd::Node{1, 2} == fd::Node{1, 2});
  CHECK_FALSE(fd::Node{1, 2} == fd::Node{2, 2});
  CHECK_FALSE(fd::Node{1, 2} == fd::Node{1, 1});
}
