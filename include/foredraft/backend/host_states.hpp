#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// One recurrent layer of one sequence in the host's memory.
struct HostStateLayer {
  float* inputs = nullptr;  // [n_rows, n_inputs]
  float* states = nullptr;  // [n_rows or 1, n_heads, d_state]
  std::size_t n_inputs = 0;
  std::size_t n_heads = 0;
  std::size_t d_state = 0;

  /// A part of one head's state. Parts that do not depend on each other are computed one after the other,
  /// each for all rows, so that it stays in the processor's nearest cache.
  struct Part {
    int head = 0;
    std::size_t first = 0;  // of the state's elements
    std::size_t size = 0;
  };
  Part whole(int head) const noexcept { return {head, 0, d_state}; }

  /// What a token put in; null for none, row -1.
  float* row(std::int32_t row) const noexcept {
    return row < 0 ? nullptr : inputs + idx(row) * n_inputs;
  }

 protected:
  float* state(std::int32_t slot, const Part& part) const noexcept {
    return states + (idx(slot) * n_heads + idx(part.head)) * d_state + part.first;
  }
};

/// Every row has the state behind its token.
struct SlotsLayer : HostStateLayer {
  static constexpr bool replays = false;

  /// Compute a part of the states of one head for the rows of a sequence, in their order.
  /// step(state, row, i): let the state take in what storage row `row` holds; it is that behind row
  /// i of the sequence then, or, where i is -1, one whose result nobody wants
  /// @shape state [part.size]
  template <typename Step>
  void walk(const SequenceRows& rows, const StateRows& states_of, const Part& part, float*,
            Step&& step) const noexcept {
    for (int i = 0; i < rows.n_rows; ++i) {
      const std::int32_t own = states_of.own(rows, i);
      const std::int32_t parent = states_of.before(rows, i, 1);
      float* const to = state(own, part);
      if (parent < 0) {
        std::fill_n(to, part.size, 0.0f);
      } else {
        std::copy_n(state(parent, part), part.size, to);
      }
      step(to, own, i);
    }
  }
};

/// One state, behind the committed tokens.
struct ReplayLayer : HostStateLayer {
  static constexpr bool replays = true;

  /// As in SlotsLayer. First the state takes in the committed tokens that it lacks, for good; those
  /// of staged tokens are computed in `scratch`. A row that does not follow the one before it begins
  /// with the tokens of its path again.
  /// @shape scratch [part.size]
  template <typename Step>
  void walk(const SequenceRows& rows, const StateRows& states_of, const Part& part, float* scratch,
            Step&& step) const noexcept {
    float* const kept = state(0, part);
    if (states_of.empty) std::fill_n(kept, part.size, 0.0f);
    for (const std::int32_t row : states_of.committed.last(idx(states_of.unapplied))) {
      step(kept, row, -1);
    }
    for (int i = 0; i < rows.n_rows; ++i) {
      if (i == 0 || states_of.before(rows, i, 1) != states_of.own(rows, i - 1)) {
        std::copy_n(kept, part.size, scratch);
        const int above = rows.visible(i) - 1 - rows.size;
        for (int back = above; back > 0; --back) {
          step(scratch, states_of.before(rows, i, back), -1);
        }
      }
      step(scratch, states_of.own(rows, i), i);
    }
  }
};

/// Memory for both.
template <typename L>
class HostStates {
 public:
  using Layer = L;
  static constexpr bool replays = L::replays;

  HostStates() noexcept = default;
  /// @errors kOutOfMemory
  HostStates(const CacheShape& shape, int n_rows) {
    std::optional<std::size_t> inputs = 0;
    std::optional<std::size_t> states = 0;
    const auto grow = [](std::optional<std::size_t>& all, std::optional<std::size_t> by, int n) {
      if (all && by) by = checked_mul(*by, idx(n));
      all = all && by ? checked_add(*all, *by) : std::nullopt;
    };
    for (const StateShape& layer : shape.states) {
      if (!inputs || !states) break;
      layers_.push_back({layer, *inputs, *states});
      grow(inputs, idx(layer.n_inputs), n_rows);
      grow(states, area(layer.n_heads, layer.d_state), replays ? 1 : n_rows);
    }
    if (inputs && states) {
      inputs_ = take(inputs);
      states_ = take(states);
    }
    if (inputs_ != nullptr && states_ != nullptr) return;
    throw Error(ErrorCode::kOutOfMemory,
                "no memory for states of " + std::to_string(n_rows) + " rows",
                std::to_string(bytes(shape, n_rows) / 1e6) + " MB", "use a smaller max_staged");
  }

  /// Bytes of n rows and their states.
  static double bytes(const CacheShape& shape, int n_rows) noexcept {
    double elements = 0;
    for (const StateShape& layer : shape.states) {
      elements += static_cast<double>(layer.n_inputs) * n_rows +
                  static_cast<double>(layer.n_heads) * layer.d_state * (replays ? 1 : n_rows);
    }
    return elements * sizeof(float);
  }

  Layer layer(int i) noexcept { return at(layers_[idx(i)]); }

  std::size_t elements(int n_rows, bool with_state) const noexcept {
    std::size_t sum = 0;
    for (const Place& layer : layers_) {
      sum += idx(layer.shape.n_inputs) * idx(n_rows) + (with_state ? layer.state() : 0);
    }
    return sum;
  }

  void copy_to(std::span<const std::int32_t> rows, bool with_state,
               std::vector<float>& values) const {
    values.reserve(values.size() + elements(static_cast<int>(rows.size()), with_state));
    for_each_part(rows, with_state, [&](const float* part, std::size_t n) {
      values.insert(values.end(), part, part + n);
    });
  }

  /// @shape values [elements(rows.size(), with_state)]
  void restore(std::span<const std::int32_t> rows, bool with_state,
               std::span<const float> values) noexcept {
    for_each_part(rows, with_state, [&](float* part, std::size_t n) {
      std::copy_n(values.data(), n, part);
      values = values.subspan(n);
    });
  }

 private:
  struct Place {
    StateShape shape;
    std::size_t inputs;  // its first element
    std::size_t states;  // likewise
    std::size_t state() const noexcept { return area(shape.n_heads, shape.d_state); }
  };

  static Pages take(std::optional<std::size_t> elements) noexcept {
    const auto bytes = elements ? checked_mul(*elements, sizeof(float)) : std::nullopt;
    return bytes ? take_pages(*bytes, false) : nullptr;
  }

  // float is an implicit-lifetime type, so raw memory needs no constructor.
  Layer at(const Place& place) const noexcept {
    Layer layer;
    layer.inputs = reinterpret_cast<float*>(inputs_.get()) + place.inputs;
    layer.states = reinterpret_cast<float*>(states_.get()) + place.states;
    layer.n_inputs = idx(place.shape.n_inputs);
    layer.n_heads = idx(place.shape.n_heads);
    layer.d_state = idx(place.shape.d_state);
    return layer;
  }

  /// f(first, n) for what the rows hold, layer by layer, each followed by its state.
  template <typename F>
  void for_each_part(std::span<const std::int32_t> rows, bool with_state, F&& f) const {
    for (const Place& place : layers_) {
      const Layer layer = at(place);
      for (const std::int32_t row : rows) f(layer.row(row), layer.n_inputs);
      if (!with_state) continue;
      f(layer.states + (replays ? 0 : idx(rows.back()) * place.state()), place.state());
    }
  }

  std::vector<Place> layers_;
  Pages inputs_;  // of each layer [n_rows, n_inputs]
  Pages states_;  // of each layer [n_rows or 1, n_heads, d_state]
};

}  // namespace detail

/// A state for every staged token. A commit picks that of the path's end, and whatever hangs below a
/// node finds the node's state: trees cost no more than chains.
/// @cost memory: a state for each staged token; time: each state is read and written once a token
using Slots = detail::HostStates<detail::SlotsLayer>;

/// One state, and what each token put in. A commit notes the path; the next forward pass lets the
/// state take in its tokens and writes it once. Trees are computed too, path by path where a row
/// does not follow the one before it.
/// @cost memory: one state; time: a committed token is taken in twice, once when it is staged
using Replay = detail::HostStates<detail::ReplayLayer>;

static_assert(StateStorage<Slots> && StateStorage<Replay>);

}  // namespace foredraft::inline v0
