#include <foredraft/cache/overlay.hpp>

#include <vector>

#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/cache/state_cache.hpp>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

using Cache = fd::LinearCache<float>;
using Overlay = fd::Overlay<Cache>;
using Nodes = std::vector<fd::Node>;

static_assert(fd::KeyValueCache<Overlay>);
static_assert(fd::KeyValueCache<fd::Overlay<fd::RotatingCache<fd::f16>>>);
// Half of a state cannot be taken in.
static_assert(!fd::StateCache<fd::Overlay<fd::HybridCache<fd::f16>>>);

namespace {

const fd::CacheShape kShape{1, 1, 2, 16};

/// A cache with `n` committed positions.
Cache filled(int n) {
  Cache cache(kShape, 16, 8);
  for (int i = 0; i < n; ++i) {
    cache.stage(Nodes{{i, fd::kCommitted}});
    cache.commit(std::vector<fd::NodeIndex>{0});
  }
  return cache;
}

}  // namespace

TEST_CASE("an overlay has the positions of the cache below, and rows behind them") {
  Cache base = filled(5);
  Overlay overlay;
  overlay.lay_over(base);
  CHECK(overlay.size() == 5);
  CHECK(overlay.capacity() == base.capacity());
  CHECK(overlay.max_staged() == base.max_staged());
  CHECK(overlay.staged() == 0);

  overlay.stage(Nodes{{10, fd::kCommitted}, {11, 0}});
  overlay.stage(Nodes{{12, 0}});  // cumulative, a tree now
  CHECK(overlay.staged() == 3);
  CHECK(overlay.token(2) == 12);
  CHECK(overlay.position(0) == 5);
  CHECK(overlay.position(2) == 6);
  const fd::SequenceRows rows = overlay.rows(1, 2, 0);
  CHECK(rows.visible(0) == 7);
  CHECK(overlay.layer(0).k.data == base.layer(0).k.data);
  CHECK(base.size() == 5);
}

TEST_CASE("what it stages is dropped: by itself, and by the owner's next turn") {
  Cache base = filled(2);
  Overlay overlay;
  overlay.lay_over(base);
  overlay.stage(Nodes{{7, fd::kCommitted}});
  overlay.discard();
  overlay.stage(Nodes{{8, fd::kCommitted}});
  CHECK(base.staged() == 1);
  CHECK(overlay.token(0) == 8);

  base.discard();
  base.stage(Nodes{{9, fd::kCommitted}});
  base.commit(std::vector<fd::NodeIndex>{0});
  overlay.commit(std::vector<fd::NodeIndex>{0});  // the same token
  CHECK(overlay.size() == base.size());
  CHECK(overlay.staged() == 0);
}

TEST_CASE("between two rounds it asks nothing of the cache below, which may have moved") {
  Overlay overlay;
  {
    Cache base = filled(4);
    overlay.lay_over(base);
    overlay.stage(Nodes{{7, fd::kCommitted}});
  }
  overlay.truncate(9);
  CHECK(overlay.size() == 4);
  overlay.truncate(3);
  CHECK(overlay.size() == 3);
  overlay.truncate(-1);
  CHECK(overlay.size() == 0);
  overlay.restore(overlay.snapshot());
  CHECK(overlay.size() == 0);
  CHECK(overlay.staged() == 0);
}

TEST_CASE("an overlay of no cache, or of an earlier one, takes no nodes") {
  Overlay overlay;
  const Nodes node{{1, fd::kCommitted}};
  CHECK(code_of([&] { overlay.stage(node); }) == fd::ErrorCode::kInvalidDraft);
  Cache base = filled(2);
  overlay.lay_over(base);
  base.stage(node);
  base.commit(std::vector<fd::NodeIndex>{0});
  CHECK(code_of([&] { overlay.stage(node); }) == fd::ErrorCode::kInvalidDraft);
  CHECK(base.staged() == 0);
  overlay.lay_over(base);
  overlay.stage(node);
  base.discard();
  CHECK(code_of([&] { overlay.stage(node); }) == fd::ErrorCode::kInvalidDraft);
  overlay.lay_over(base);
  CHECK(code_of([&] { overlay.stage(Nodes(9, node[0])); }) == fd::ErrorCode::kInvalidDraft);
  CHECK(overlay.staged() == 0);
}
