#include <foredraft/backend/host_states.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

fd::CacheShape shape() {
  fd::CacheShape shape({}, 32);
  shape.states = {{.n_inputs = 2, .window = 1},
                  {.n_inputs = 1, .window = 1, .n_heads = 2, .d_state = 3}};
  return shape;
}

/// A state that says what it has taken in: each token is a digit behind those before.
std::string walked(auto& states, const fd::SequenceRows& rows, const fd::StateRows& of) {
  std::string text;
  const auto layer = states.layer(1);
  std::vector<float> scratch(3);
  layer.walk(rows, of, layer.whole(1), scratch.data(), [&](float* state, std::int32_t row, int i) {
    state[2] = 10 * state[2] + *layer.row(row);
    if (i >= 0) text += std::to_string(static_cast<int>(state[2])) + " ";
  });
  return text;
}

template <typename V>
V storage() {
  V states(shape(), 8);
  for (std::int32_t row = 0; row < 8; ++row) *states.layer(1).row(row) = static_cast<float>(row);
  return states;
}

// Two roots; 2 and 3 hang below 0, 4 below 3. Storage rows are 1 .. 5.
const std::vector<fd::NodeIndex> kPath{0, 1, 0, 2, 0, 3, 0, 3, 4};
const std::vector<std::int32_t> kBegin{0, 1, 2, 4, 6, 9};
const std::vector<std::int32_t> kStaged{1, 2, 3, 4, 5};

}  // namespace

TEMPLATE_TEST_CASE("a state that is computed in parts is the same", "", fd::Slots, fd::Replay) {
  const auto state_behind = [](const std::vector<std::size_t>& borders) {
    auto states = storage<TestType>();
    const auto layer = states.layer(1);
    std::vector<float> scratch(3);
    const auto walk = [&](const fd::SequenceRows& rows, const fd::StateRows& of) {
      for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
        const std::size_t first = borders[i];
        const std::size_t n = borders[i + 1] - first;
        layer.walk(rows, of, {1, first, n}, scratch.data(),
                   [&](float* state, std::int32_t row, int) {
                     for (std::size_t k = 0; k < n; ++k) {
                       state[k] = 10 * state[k] + static_cast<float>(first + k) + *layer.row(row);
                     }
                   });
      }
    };
    walk({0, 5, 0, 0, kPath, kBegin}, {{}, kStaged, 0, true});
    // What the first two rows put in is committed now.
    const auto committed = std::span(kStaged).first(2);
    walk({0, 0, 0, 2, {}, {}}, {committed, {}, 2, true});
    std::vector<float> values;
    states.copy_to(committed, true, values);
    return std::vector<float>(values.end() - 3, values.end());  // nobody wrote the rest
  };
  const std::vector<float> whole = state_behind({0, 3});
  CHECK(whole.back() != 0.0f);
  CHECK(state_behind({0, 1, 3}) == whole);
  CHECK(state_behind({0, 2, 3}) == whole);
}

TEMPLATE_TEST_CASE("every row of a tree takes in its own path", "", fd::Slots, fd::Replay) {
  auto states = storage<TestType>();
  const fd::SequenceRows rows{0, 5, 0, 0, kPath, kBegin};
  CHECK(walked(states, rows, {{}, kStaged, 0, true}) == "1 2 13 14 145 ");
  // Again, in two passes: the state of committed tokens has not changed, and there are none.
  const std::vector<std::int32_t> first{0, 1, 2};
  const std::vector<std::int32_t> rest{0, 2, 4, 7};
  CHECK(walked(states, {0, 2, 0, 0, kPath, first}, {{}, kStaged, 0, true}) == "1 2 ");
  const std::vector<fd::NodeIndex> last{0, 2, 0, 3, 0, 3, 4};
  CHECK(walked(states, {0, 3, 2, 0, last, rest}, {{}, kStaged, 0, true}) == "13 14 145 ");
}

TEST_CASE("a slot is the state behind a committed token") {
  auto states = storage<fd::Slots>();
  const std::vector<std::int32_t> staged{1, 2, 3};
  CHECK(walked(states, {0, 3, 0, 0, {}, {}}, {{}, staged, 0, true}) == "1 12 123 ");
  const std::vector<std::int32_t> committed{2};  // node 1 and what led to it
  const std::vector<std::int32_t> next{7, 6};
  CHECK(walked(states, {0, 2, 0, 2, {}, {}}, {committed, next, 0, false}) == "127 1276 ");
}

TEST_CASE("the state takes in committed tokens once, and staged ones never") {
  auto states = storage<fd::Replay>();
  const std::vector<std::int32_t> committed{1, 2};
  const std::vector<std::int32_t> next{7, 6};
  const fd::SequenceRows rows{0, 2, 0, 2, {}, {}};
  CHECK(walked(states, rows, {committed, next, 2, true}) == "127 1276 ");
  CHECK(walked(states, rows, {committed, next, 0, false}) == "127 1276 ");
  const std::vector<std::int32_t> more{2, 7};
  CHECK(walked(states, {0, 1, 0, 3, {}, {}}, {more, std::span(next).last(1), 1, false}) == "1276 ");
}

TEMPLATE_TEST_CASE("what is copied out can be put back in other rows", "", fd::Slots, fd::Replay) {
  auto states = storage<TestType>();
  const std::vector<std::int32_t> staged{1, 2};
  if (TestType::replays) {
    walked(states, {0, 0, 0, 2, {}, {}}, {staged, {}, 2, true});
  } else {
    walked(states, {0, 2, 0, 0, {}, {}}, {{}, staged, 0, true});
  }
  for (std::int32_t row = 0; row < 8; ++row) {
    states.layer(0).row(row)[0] = states.layer(0).row(row)[1] = static_cast<float>(row);
  }
  for (const int head : {0}) {  // nobody walked along it
    std::vector<float> scratch(3);
    const auto layer = states.layer(1);
    const auto nothing = [](float*, std::int32_t, int) {};
    if (TestType::replays) {
      layer.walk({0, 0, 0, 2, {}, {}}, {staged, {}, 2, true}, layer.whole(head), scratch.data(),
                 nothing);
    } else {
      layer.walk({0, 2, 0, 0, {}, {}}, {{}, staged, 0, true}, layer.whole(head), scratch.data(),
                 nothing);
    }
  }
  std::vector<float> values;
  states.copy_to(staged, true, values);
  CHECK(values.size() == states.elements(2, true));
  CHECK(values == std::vector<float>{1, 1, 2, 2, 1, 2, 0, 0, 0, 0, 0, 12});
  auto other = storage<TestType>();
  const std::vector<std::int32_t> rows{5, 4};
  other.restore(rows, true, values);
  std::vector<float> again;
  other.copy_to(rows, true, again);
  CHECK(again == values);
}

TEST_CASE("memory: a state for every row, or one") {
  CHECK(fd::Slots::bytes(shape(), 8) == 4.0 * (8 * 2 + 8 * 1 + 8 * 6));
  CHECK(fd::Replay::bytes(shape(), 8) == 4.0 * (8 * 2 + 8 * 1 + 6));
  fd::CacheShape huge = shape();
  huge.states[1].n_heads = huge.states[1].d_state = fd::Dim::kMost;
  CHECK(code_of([&] { fd::Slots(huge, std::numeric_limits<int>::max()); }) ==
        fd::ErrorCode::kOutOfMemory);
}
