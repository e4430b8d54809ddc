#include <foredraft/backend/row_ring.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using foredraft::RowRing;

namespace {

using Ranges = std::vector<std::pair<int, int>>;

Ranges kept(const RowRing& layer, int begin, int end) {
  Ranges ranges;
  layer.for_each_kept(begin, end, [&](int first, int last) { ranges.emplace_back(first, last); });
  return ranges;
}

}  // namespace

TEST_CASE("a ring where a window has one, and it is shorter than all rows") {
  CHECK(RowRing::of(0, 4, 20, 300).ring == 0);
  CHECK(RowRing::of(0, 4, 20, 300).sinks == 0);
  CHECK(RowRing::of(10, 0, 0, 300).ring == 0);
  CHECK(RowRing::of(10, 0, 0, 300).places == 300);
  CHECK(RowRing::of(10, 0, 20, 32).ring == 0);  // as long
  CHECK(RowRing::of(10, 0, 20, 33).ring == 32);
  CHECK(RowRing::of(10, 0, 23, 300).ring == 64);
  const RowRing pinned = RowRing::of(10, 33, 20, 300);
  CHECK(pinned.pinned == 64);
  CHECK(pinned.places == 96);
  CHECK(RowRing::of(10, 33, 20, 96).places == 96);
  CHECK(RowRing::of(10, 33, 20, 96).ring == 0);
}

TEST_CASE("rows of a window and a pass never share a place, and sinks keep theirs") {
  for (const int sinks : {0, 4, 40}) {
    const RowRing layer = RowRing::of(10, sinks, 20, 1000);
    for (int size = 0; size < 300; ++size) {
      std::vector<int> places;
      for (int row = 0; row < std::min(sinks, size); ++row) places.push_back(layer.place(row));
      const int first = std::max(static_cast<int>(places.size()), size - 9);
      for (int row = first; row < size + 20; ++row) places.push_back(layer.place(row));
      std::ranges::sort(places);
      REQUIRE(std::ranges::adjacent_find(places) == places.end());
      REQUIRE(places.front() >= 0);
      REQUIRE(places.back() < layer.places);
    }
  }
}

TEST_CASE("rows lie together up to the end of the ring") {
  const RowRing layer = RowRing::of(10, 4, 20, 1000);
  REQUIRE(layer.places == 64);
  for (int row = 0; row < 200; ++row) {
    const int n = layer.together(row, 200);
    REQUIRE(n >= 1);
    for (int i = 0; i < n; ++i) REQUIRE(layer.place(row + i) == layer.place(row) + i);
    if (row + n < 200) REQUIRE(layer.place(row + n) == 32);
  }
  CHECK(layer.together(3, 5) == 2);
  CHECK(RowRing::of(0, 0, 20, 1000).together(3, 900) == 897);
}

TEST_CASE("a snapshot has what the next row sees, whole where that begins among the pinned rows") {
  const RowRing linear = RowRing::of(10, 4, 0, 1000);
  CHECK(kept(linear, 7, 200) == Ranges{{7, 200}});
  CHECK(kept(linear, 200, 200).empty());
  CHECK(linear.kept(200) == 200);
  const RowRing ring = RowRing::of(10, 0, 20, 1000);
  CHECK(kept(ring, 0, 200) == Ranges{{191, 200}});
  CHECK(ring.kept(200) == 9);
  CHECK(kept(ring, 0, 5) == Ranges{{0, 5}});
  const RowRing pinned = RowRing::of(10, 4, 20, 1000);
  CHECK(kept(pinned, 0, 200) == Ranges{{0, 4}, {191, 200}});
  CHECK(pinned.kept(200) == 13);
  CHECK(kept(pinned, 0, 40) == Ranges{{0, 40}});  // 31 would be the first
  CHECK(kept(pinned, 0, 41) == Ranges{{0, 4}, {32, 41}});
  CHECK(pinned.kept(40) == 40);
}

TEST_CASE("what was written over, or not restored, is not held") {
  RowRing ring = RowRing::of(10, 0, 20, 1000);
  REQUIRE(ring.ring == 32);
  CHECK(ring.holds(0, 32));
  CHECK(ring.holds(10, 33));       // reads rows from 1 on
  CHECK_FALSE(ring.holds(9, 33));  // row 0 lies where row 32 does
  CHECK(ring.holds(177, 200));     // reads 168 on
  CHECK_FALSE(ring.holds(176, 200));
  CHECK(RowRing::of(10, 0, 0, 1000).holds(3, 999));
  ring.first_restored = 100;
  CHECK(ring.holds(109, 110));
  CHECK_FALSE(ring.holds(108, 110));
  const RowRing pinned = RowRing::of(10, 4, 20, 1000);
  CHECK(pinned.holds(5, 64));
  CHECK(pinned.holds(42, 65));        // reads 33 on
  CHECK_FALSE(pinned.holds(41, 65));  // row 32 lies where row 64 does
}
