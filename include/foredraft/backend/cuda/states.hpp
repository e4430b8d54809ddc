#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/state_steps.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cuda {

/// Every row has the state behind its token.
struct SlotsLayer : StateLayer {
  static constexpr bool replays = false;
  static constexpr int n_states(int n_rows) noexcept { return n_rows; }
};

/// There is one state, behind the committed tokens, and room for the next one: a pass reads the one
/// and writes the other. So a pass that fails on its way has changed nothing.
struct ReplayLayer : StateLayer {
  static constexpr bool replays = true;
  static constexpr int n_states(int) noexcept { return 2; }
};

/// A layer of states that operators of a device can read.
template <typename L>
concept StatesOnDevice = std::derived_from<L, StateLayer>;

/// What recurrent layers keep of one sequence, in a device's memory, as HostStates keeps it in the
/// host's.
/// @cost commits ask nothing of the device
template <StatesOnDevice L, Device D>
class States {
 public:
  using Layer = L;
  static constexpr bool replays = L::replays;

  States() noexcept = default;
  /// @errors kOutOfMemory
  States(const CacheShape& shape, int n_rows) : device_(&device_of<D>(shape)) {
    const Chosen<D> here(*device_);
    std::optional<std::size_t> inputs = 0;
    std::optional<std::size_t> states = 0;
    const auto grow = [](std::optional<std::size_t>& all, std::optional<std::size_t> by, int n) {
      if (by) by = checked_mul(*by, idx(n));
      if (by) by = checked_add(*by, (4 - *by % 4) % 4);  // layers begin at whole fours
      all = all && by ? checked_add(*all, *by) : std::nullopt;
    };
    for (const StateShape& layer : shape.states) {
      if (!inputs || !states) break;
      layers_.push_back({layer, *inputs, *states});
      grow(inputs, idx(layer.n_inputs), n_rows);
      grow(states, area(layer.n_heads, layer.d_state), L::n_states(n_rows));
    }
    if (!inputs || !states || !checked_mul(*inputs, sizeof(float)) ||
        !checked_mul(*states, sizeof(float))) {
      throw Error(ErrorCode::kOutOfMemory,
                  "no memory for states of " + std::to_string(n_rows) + " rows",
                  std::to_string(bytes(shape, n_rows) / 1e6) + " MB", "use a smaller max_staged");
    }
    if (*inputs > 0) inputs_ = DeviceMemory<D, float>(*inputs);
    if (*states > 0) states_ = DeviceMemory<D, float>(*states);
  }

  /// Bytes of n rows and their states, but for what fills layers up to whole fours.
  static double bytes(const CacheShape& shape, int n_rows) noexcept {
    double elements = 0;
    for (const StateShape& layer : shape.states) {
      elements += static_cast<double>(layer.n_inputs) * n_rows +
                  static_cast<double>(layer.n_heads) * layer.d_state * L::n_states(n_rows);
    }
    return elements * sizeof(float);
  }

  Layer layer(int i) noexcept {
    const Place& place = layers_[idx(i)];
    Layer layer;
    layer.inputs = inputs_.data() + place.inputs;
    layer.states = states_.data() == nullptr ? nullptr : states_.data() + place.states;
    layer.n_inputs = place.shape.n_inputs;
    layer.n_heads = place.shape.n_heads;
    layer.d_state = place.shape.d_state;
    layer.kept = kept_;
    return layer;
  }

  /// The state that a pass has written is that of the committed tokens.
  void applied() noexcept
    requires replays
  {
    kept_ = 1 - kept_;
  }

  std::size_t elements(int n_rows, bool with_state) const noexcept {
    std::size_t sum = 0;
    for (const Place& layer : layers_) {
      sum += idx(layer.shape.n_inputs) * idx(n_rows) + (with_state ? layer.state() : 0);
    }
    return sum;
  }

  void copy_to(std::span<const std::int32_t> rows, bool with_state,
               std::vector<float>& values) const {
    std::size_t at = values.size();
    values.resize(at + elements(static_cast<int>(rows.size()), with_state));
    for_each_part(rows, with_state, [&](float* part, std::size_t n) {
      device_->download(reinterpret_cast<std::byte*>(values.data() + at),
                        reinterpret_cast<const std::byte*>(part), n * sizeof(float));
      at += n;
    });
  }

  /// @shape values [elements(rows.size(), with_state)]. An error of the device is noted, and thrown
  /// by the next pass.
  void restore(std::span<const std::int32_t> rows, bool with_state,
               std::span<const float> values) noexcept {
    try {
      for_each_part(rows, with_state, [&](float* part, std::size_t n) {
        device_->upload(reinterpret_cast<std::byte*>(part),
                        reinterpret_cast<const std::byte*>(values.data()), n * sizeof(float));
        values = values.subspan(n);
      });
    } catch (...) {
      device_->note(std::current_exception());
    }
  }

 private:
  struct Place {
    StateShape shape;
    std::size_t inputs;  // its first element
    std::size_t states;  // likewise
    std::size_t state() const noexcept { return area(shape.n_heads, shape.d_state); }
  };

  /// f(first, n) for what the rows hold, layer by layer, each followed by its state.
  template <typename F>
  void for_each_part(std::span<const std::int32_t> rows, bool with_state, F&& f) const {
    for (const Place& place : layers_) {
      const std::size_t n_inputs = idx(place.shape.n_inputs);
      for (const std::int32_t row : rows) {
        f(inputs_.data() + place.inputs + idx(row) * n_inputs, n_inputs);
      }
      if (!with_state || place.state() == 0) continue;
      const int slot = L::replays ? kept_ : rows.back();
      f(states_.data() + place.states + idx(slot) * place.state(), place.state());
    }
  }

  D* device_ = nullptr;
  std::vector<Place> layers_;
  DeviceMemory<D, float> inputs_;  // of each layer [n_rows, n_inputs]
  DeviceMemory<D, float> states_;  // of each layer [n_states, n_heads, d_state]
  int kept_ = 0;                   // which state is that of the committed tokens, with Replay
};

/// As foredraft::Slots, in a device's memory.
template <Device D>
using Slots = States<SlotsLayer, D>;
/// As foredraft::Replay, in a device's memory. @cost memory: two states
template <Device D>
using Replay = States<ReplayLayer, D>;

}  // namespace foredraft::inline v0::cuda
