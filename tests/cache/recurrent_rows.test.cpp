#include <foredraft/cache/recurrent_rows.hpp>

#include <foredraft/backend/host_states.hpp>

#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

constexpr int kMaxStaged = 6;

fd::CacheShape shape(bool with_states = true) {
  fd::CacheShape shape({}, 32);
  shape.states = {{.n_inputs = 2, .window = 3}};
  if (with_states) shape.states.push_back({.n_inputs = 1, .window = 1, .n_heads = 1, .d_state = 1});
  return shape;
}

std::vector<int> committed(const auto& rows) {
  const auto of = rows.rows().committed;
  return {of.begin(), of.end()};
}
std::vector<int> staged(const auto& rows, int n) {
  const auto of = rows.rows().staged.first(fd::idx(n));
  return {of.begin(), of.end()};
}

}  // namespace

TEMPLATE_TEST_CASE("no row has two owners, and rows stay with their tokens", "", fd::Slots,
                   fd::Replay) {
  fd::RecurrentRows<TestType> rows(shape(), kMaxStaged);
  std::vector<int> history;
  for (int round = 0; round < 40; ++round) {
    const int n = 1 + round % kMaxStaged;
    const int kept = round % 4 == 3 ? 0 : 1 + round % n;
    REQUIRE(rows.room() >= kMaxStaged);
    const std::vector<int> nodes = staged(rows, n);
    // The path is every other node at most, so that some change their places.
    std::vector<int> path;
    for (int i = n - kept; i < n; ++i) path.push_back(i);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] != static_cast<int>(i)) rows.move(path[i], static_cast<int>(i));
      history.push_back(nodes[fd::idx(path[i])]);
    }
    rows.commit(kept);
    const std::vector<int> now = committed(rows);
    REQUIRE(now.size() <= history.size());
    CHECK(std::equal(now.rbegin(), now.rend(), history.rbegin()));
    CHECK(now.size() >= std::min<std::size_t>(3, history.size()));
    std::set<int> all(now.begin(), now.end());
    for (const int row : staged(rows, rows.room())) all.insert(row);
    CHECK(all.size() == now.size() + fd::idx(rows.room()));
    if (round % 3 == 0) rows.applied();
    if (rows.room() < kMaxStaged) rows.applied();
  }
}

TEST_CASE("committed tokens wait for a pass, and are held as long") {
  fd::RecurrentRows<fd::Replay> rows(shape(), kMaxStaged);
  CHECK(rows.rows().empty);
  rows.commit(5);
  CHECK(rows.rows().unapplied == 5);
  CHECK(rows.rows().empty);
  CHECK(committed(rows).size() == 5);
  CHECK(rows.room() == kMaxStaged + 1);
  rows.applied();
  CHECK(rows.rows().unapplied == 0);
  CHECK_FALSE(rows.rows().empty);
  CHECK(committed(rows).size() == 3);
  rows.forget();
  CHECK(rows.rows().empty);
  CHECK(committed(rows).empty());
}

TEST_CASE("with slots, and where there are no states, nothing waits") {
  fd::RecurrentRows<fd::Slots> slots(shape(), kMaxStaged);
  slots.commit(5);
  CHECK(slots.rows().unapplied == 0);
  CHECK_FALSE(slots.rows().empty);
  CHECK(committed(slots).size() == 3);
  fd::RecurrentRows<fd::Replay> inputs(shape(false), kMaxStaged);
  inputs.commit(5);
  CHECK(inputs.rows().unapplied == 0);
  CHECK(committed(inputs).size() == 3);
}

TEMPLATE_TEST_CASE("a snapshot has what is held, and is checked", "", fd::Slots, fd::Replay) {
  using Rows = fd::RecurrentRows<TestType>;
  Rows rows(shape(), kMaxStaged);
  const auto fill = [](Rows& to, float by) {
    for (std::int32_t row = 0; row < kMaxStaged + 3; ++row) {
      to.layer(0).row(row)[0] = to.layer(0).row(row)[1] = by * static_cast<float>(row);
      *to.layer(1).row(row) = by * static_cast<float>(row);
      if (!TestType::replays) to.layer(1).states[row] = by;
    }
    to.layer(1).states[0] = by;
  };
  fill(rows, 2);
  rows.commit(4);
  const auto snapshot = rows.snapshot();
  CHECK(snapshot.n_rows == (TestType::replays ? 4 : 3));
  rows.check(snapshot, 4);
  for (const int size : {0, 3, 5})
    CHECK((size != 0 && !TestType::replays) ==
          !code_of([&] { rows.check(snapshot, size); }).has_value());
  auto damaged = snapshot;
  damaged.values.pop_back();
  CHECK(code_of([&] { rows.check(damaged, 4); }) == fd::ErrorCode::kInvalidOption);
  damaged = snapshot;
  damaged.unapplied = -1;
  CHECK(code_of([&] { rows.check(damaged, 4); }) == fd::ErrorCode::kInvalidOption);
  rows.check({}, 0);

  Rows other(shape(), kMaxStaged);
  fill(other, 7);
  other.commit(6);
  other.applied();
  other.restore(snapshot);
  CHECK(other.snapshot().values == snapshot.values);
  CHECK(other.rows().unapplied == rows.rows().unapplied);
  CHECK(other.rows().empty == rows.rows().empty);
  other.restore({});
  CHECK(other.rows().empty);
  CHECK(committed(other).empty());
}
