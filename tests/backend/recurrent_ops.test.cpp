#include <foredraft/backend/recurrent_ops.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {
// Storage rows of three committed tokens and of four staged ones.
const std::vector<std::int32_t> kCommittedRows{9, 4, 7};
const std::vector<std::int32_t> kStagedRows{2, 0, 5, 3};
const fd::StateRows kStates{kCommittedRows, kStagedRows, 0, false};
}  // namespace

TEST_CASE(
    "what lies before a row of a chain is the chain, then the committed tokens, then nothing") {
  const fd::SequenceRows rows{0, 3, 1, 10, {}, {}};  // nodes 1, 2, 3
  CHECK(kStates.own(rows, 0) == 0);
  CHECK(kStates.own(rows, 2) == 3);
  CHECK(kStates.before(rows, 2, 1) == 5);
  CHECK(kStates.before(rows, 2, 3) == 2);
  CHECK(kStates.before(rows, 2, 4) == 7);
  CHECK(kStates.before(rows, 2, 6) == 9);
  CHECK(kStates.before(rows, 2, 7) == -1);
}

TEST_CASE("in a tree it is the row's own path") {
  // 0 and 1 behind the committed tokens, 2 behind 0, 3 behind 2.
  const std::vector<fd::NodeIndex> path{0, 1, 0, 2, 0, 2, 3};
  const std::vector<std::int32_t> begin{0, 1, 2, 4, 7};
  const fd::SequenceRows rows{0, 4, 0, 3, path, begin};
  CHECK(kStates.before(rows, 1, 1) == 7);
  CHECK(kStates.before(rows, 2, 1) == 2);
  CHECK(kStates.before(rows, 3, 1) == 5);
  CHECK(kStates.before(rows, 3, 2) == 2);
  CHECK(kStates.before(rows, 3, 3) == 7);
  CHECK(kStates.own(rows, 3) == 3);
}

TEST_CASE("a short convolution keeps what it convolves, and no state") {
  CHECK(fd::ShortConvShape{.width = 64, .kernel = 3}.state() ==
        fd::StateShape{.n_inputs = 64, .window = 2});
}

TEST_CASE("a selective scan keeps what it convolves, the result, time steps and states") {
  const fd::SelectiveScanShape scan{
      .width = 64, .n_heads = 4, .d_head = 16, .d_state = 8, .n_groups = 2, .kernel = 4};
  CHECK(scan.d_conv() == 96);
  CHECK(scan.d_in() == 164);
  CHECK(scan.state() == fd::StateShape{.n_inputs = 196, .window = 3, .n_heads = 4, .d_state = 128});
}

TEST_CASE("a gated delta net keeps what it convolves, the result, two numbers a head and states") {
  fd::GatedDeltaNetShape net{
      .width = 48, .n_heads = 4, .n_key_heads = 2, .d_key = 8, .d_value = 12, .kernel = 4};
  CHECK(net.d_conv() == 80);
  CHECK(net.d_in() == 136);
  CHECK(net.state() == fd::StateShape{.n_inputs = 168, .window = 3, .n_heads = 4, .d_state = 96});
  for (const int head : {0, 1, 2, 3}) CHECK(net.key_head(head) == head / 2);
  net.tiled = true;
  for (const int head : {0, 1, 2, 3}) CHECK(net.key_head(head) == head % 2);
}
