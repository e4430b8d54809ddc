#include <foredraft/backend/cuda/states.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/recurrent_rows.hpp>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using on_device::Device;
using Slots = fd::cuda::Slots<Device>;
using Replay = fd::cuda::Replay<Device>;
static_assert(fd::StateStorage<Slots> && fd::StateStorage<Replay>);

namespace {

constexpr int kRows = 8;

fd::CacheShape shape() {
  fd::CacheShape shape({}, 32);
  shape.states = {{.n_inputs = 3, .window = 1},
                  {.n_inputs = 2, .window = 1, .n_heads = 2, .d_state = 3}};
  return shape;
}

void upload(float* to, const std::vector<float>& values) {
  Device::current().upload(reinterpret_cast<std::byte*>(to),
                           reinterpret_cast<const std::byte*>(values.data()),
                           values.size() * sizeof(float));
}

/// Inputs of row r are 100 * layer + r, states 1000 * slot + their number.
void fill(auto& states) {
  for (int layer = 0; layer < 2; ++layer) {
    const auto of = states.layer(layer);
    for (int row = 0; row < kRows; ++row) {
      upload(of.row(row),
             std::vector<float>(fd::idx(of.n_inputs), static_cast<float>(100 * layer + row)));
    }
  }
  const auto of = states.layer(1);
  for (int slot = 0; slot < (states.replays ? 2 : kRows); ++slot) {
    for (int head = 0; head < 2; ++head) {
      const auto at = static_cast<float>(1000 * slot + 10 * head);
      upload(of.state(slot, head), {at, at + 1, at + 2});
    }
  }
}

std::vector<float> copied(const auto& states, const std::vector<std::int32_t>& rows,
                          bool with_state) {
  std::vector<float> values;
  states.copy_to(rows, with_state, values);
  CHECK(values.size() == states.elements(static_cast<int>(rows.size()), with_state));
  return values;
}

}  // namespace

TEST_CASE("rows and the state are copied out, and put back in other rows") {
  const std::vector<float> inputs{5, 5, 5, 2, 2, 2};
  const std::vector<float> of_second{105, 105, 102, 102};
  std::vector<float> expected = inputs;
  expected.insert(expected.end(), of_second.begin(), of_second.end());
  const auto check = [&](auto states, std::vector<float> state) {
    fill(states);
    CHECK(copied(states, {5, 2}, false) == expected);
    std::vector<float> with_state = expected;
    with_state.insert(with_state.end(), state.begin(), state.end());
    CHECK(copied(states, {5, 2}, true) == with_state);
    decltype(states) other(shape(), kRows);
    fill(other);
    const std::vector<std::int32_t> rows{1, 3};
    other.restore(rows, true, with_state);
    CHECK(copied(other, rows, true) == with_state);
    CHECK(copied(other, {0}, false) == std::vector<float>{0, 0, 0, 100, 100});
  };
  check(Slots(shape(), kRows), {2000, 2001, 2002, 2010, 2011, 2012});
  check(Replay(shape(), kRows), {0, 1, 2, 10, 11, 12});
}

TEST_CASE("what a pass has written is the state once it is applied") {
  Replay states(shape(), kRows);
  fill(states);
  CHECK(states.layer(1).kept == 0);
  states.applied();
  CHECK(states.layer(1).kept == 1);
  const auto now = copied(states, {0}, true);
  CHECK(std::vector<float>(now.end() - 6, now.end()) ==
        std::vector<float>{1000, 1001, 1002, 1010, 1011, 1012});
  states.applied();
  CHECK(states.layer(1).kept == 0);
}

TEST_CASE("the rows of a cache say when it is") {
  fd::RecurrentRows<Replay> rows(shape(), 4);
  rows.commit(2);
  CHECK(rows.layer(1).kept == 0);
  rows.applied();
  CHECK(rows.layer(1).kept == 1);
  rows.applied();  // it lacked nothing
  CHECK(rows.layer(1).kept == 1);
}

TEST_CASE("memory: a state for every row, or two") {
  CHECK(Slots::bytes(shape(), kRows) == 4.0 * (kRows * 3 + kRows * 2 + kRows * 6));
  CHECK(Replay::bytes(shape(), kRows) == 4.0 * (kRows * 3 + kRows * 2 + 2 * 6));
  fd::CacheShape huge = shape();
  huge.states[1].n_heads = huge.states[1].d_state = fd::Dim::kMost;
  CHECK(code_of([&] { Slots(huge, std::numeric_limits<int>::max()); }) ==
        fd::ErrorCode::kOutOfMemory);
  const Slots none(fd::CacheShape({}, 32), kRows);
  CHECK(none.elements(3, true) == 0);
}

TEST_CASE("layers begin where four floats can be loaded at once") {
  fd::CacheShape odd({}, 32);
  odd.states = {{.n_inputs = 3, .window = 1, .n_heads = 1, .d_state = 5},
                {.n_inputs = 4, .window = 1, .n_heads = 1, .d_state = 5}};
  Replay states(odd, 7);
  const auto second = states.layer(1);
  CHECK(reinterpret_cast<std::uintptr_t>(second.inputs) % 16 == 0);
  CHECK(second.inputs - states.layer(0).inputs >= 21);
  CHECK(second.states - states.layer(0).states >= 10);
}

TEST_CASE("a cache of states alone has no rows to move") {
  fd::HybridCache<fd::cuda::Rows<Device, float>, Slots> cache{shape(), 20, 8};
  cache.stage(std::vector<fd::Node>{{1, fd::kCommitted}, {2, fd::kCommitted}, {3, 1}});
  cache.commit(std::vector<fd::NodeIndex>{1, 2});
  CHECK(cache.size() == 2);
  CHECK_NOTHROW(Device::current().finish());
}

#ifndef __CUDACC__  // a GPU need not notice

TEST_CASE("an error while a snapshot comes back is thrown by the next pass") {
  Slots states(shape(), kRows);
  fill(states);
  const auto values = copied(states, {0}, false);
  const std::vector<std::int32_t> outside{1000};
  states.restore(outside, false, values);
  CHECK(code_of([] { Device::current().finish(); }) == fd::ErrorCode::kDevice);
  CHECK_NOTHROW(Device::current().finish());
}

#endif
