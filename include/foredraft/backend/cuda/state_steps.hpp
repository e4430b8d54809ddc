#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// What a recurrent layer keeps of one sequence, as kernels reach it.
struct StateLayer {
  float* inputs = nullptr;  // [n_rows, n_inputs]
  float* states = nullptr;  // [slots, n_heads, d_state], null where there are none
  int n_inputs = 0;
  int n_heads = 0;
  int d_state = 0;
  int kept = 0;  // slot of the state behind the committed tokens, where there is one such

  /// What a token put in.
  FOREDRAFT_HOST_DEVICE float* row(int row) const { return inputs + idx(row) * idx(n_inputs); }
  FOREDRAFT_HOST_DEVICE float* state(int slot, int head) const {
    return states + (idx(slot) * idx(n_heads) + idx(head)) * idx(d_state);
  }
};

/// Those of the sequences of a launch.
struct StateLayers {
  StateLayer of[kSequences] = {};
};

/// Where a convolution finds what a token put in.
struct TapPlace {
  int row = -1;  // of the storage; -1: it lies before the beginning
  // Of the pass, where the token is in it: its row of the storage is being written.
  int pass_row = -1;
};

/// A row of the pass and the tokens that its convolution sees.
struct StateRow {
  int row = 0;                    // of the pass
  int sequence = 0;               // of those in the launch
  TapPlace taps[kMostTaps] = {};  // its own, that of the token before it, and so on
};

/// What one token does to a state.
struct StateStep {
  static constexpr int kStays = -2;  // the state is that behind the step before
  static constexpr int kZeros = -1;  // it begins
  static constexpr int kNobody = -1;

  int row = 0;         // of the storage: what the token put in
  int from = kStays;   // or the slot of the state that takes it in
  int slot = kNobody;  // where that is written to
  int to = kNobody;    // row of the pass for what is read out of it
};

/// Steps that follow each other.
struct StateWalk {
  int first = 0;
  int n = 0;
  int sequence = 0;  // of those in the launch: whose storage it is
};

/// What the rows of a pass do to states, as kernels read it, in groups of as many sequences as one
/// launch serves. Here alone Slots and Replay differ: kernels follow steps.
///
/// Rows of one storage, even in several sequences, are one walk: a later one may begin with a state
/// that an earlier one writes.
struct StateSteps {
  struct Group {
    int first_sequence = 0;
    int n_sequences = 0;
    int first_row = 0;  // of `rows`
    int n_rows = 0;
    int first_walk = 0;  // of `walks`
    int n_walks = 0;
  };

  std::vector<StateRow> rows = {};
  std::vector<StateStep> steps = {};
  std::vector<StateWalk> walks = {};
  std::vector<Group> groups = {};

  /// @param kept  of any layer with that storage, one for each sequence. @tparam L  SlotsLayer or
  /// ReplayLayer
  template <typename L>
  StateSteps(std::span<const SequenceRows> sequences, std::span<const StateRows> states,
             std::span<const L> kept) {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      for (int i = 0; i < sequences[s].n_rows; ++i) {
        pass_rows_[{kept[s].inputs, states[s].own(sequences[s], i)}] = sequences[s].first_row + i;
      }
    }
    for (std::size_t begin = 0; begin < sequences.size(); begin += idx(kSequences)) {
      const std::size_t n = std::min(sequences.size() - begin, idx(kSequences));
      add_group(begin, sequences.subspan(begin, n), states.subspan(begin, n),
                kept.subspan(begin, n));
    }
  }

 private:
  template <typename L>
  void add_group(std::size_t first_sequence, std::span<const SequenceRows> sequences,
                 std::span<const StateRows> states, std::span<const L> kept) {
    Group group{.first_sequence = static_cast<int>(first_sequence),
                .n_sequences = static_cast<int>(sequences.size()),
                .first_row = static_cast<int>(rows.size()),
                .n_rows = 0,
                .first_walk = static_cast<int>(walks.size()),
                .n_walks = 0};
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      add_rows(sequences[s], states[s], static_cast<int>(s), kept[s].inputs);
      const auto same = [&](const L& other) { return other.inputs == kept[s].inputs; };
      const auto first = std::find_if(kept.begin(), kept.end(), same);
      if (first != kept.begin() + static_cast<std::ptrdiff_t>(s)) continue;
      const int begin = static_cast<int>(steps.size());
      for (std::size_t other = s; other < sequences.size(); ++other) {
        if (same(kept[other])) add_steps(sequences[other], states[other], kept[other]);
      }
      walks.push_back({begin, static_cast<int>(steps.size()) - begin, static_cast<int>(s)});
    }
    group.n_rows = static_cast<int>(rows.size()) - group.first_row;
    group.n_walks = static_cast<int>(walks.size()) - group.first_walk;
    groups.push_back(group);
  }

  void add_rows(const SequenceRows& sequence, const StateRows& states, int index,
                const float* storage) {
    for (int i = 0; i < sequence.n_rows; ++i) {
      StateRow& row = rows.emplace_back();
      row.row = sequence.first_row + i;
      row.sequence = index;
      for (int back = 0; back < kMostTaps; ++back) {
        TapPlace& tap = row.taps[back];
        tap.row = back == 0 ? states.own(sequence, i) : states.before(sequence, i, back);
        if (tap.row < 0) break;
        const auto found = pass_rows_.find({storage, tap.row});
        if (found != pass_rows_.end()) tap.pass_row = found->second;
      }
    }
  }

  template <typename L>
  void add_steps(const SequenceRows& sequence, const StateRows& states, const L& layer) {
    if constexpr (L::replays) {
      replay(sequence, states, layer);
    } else {
      for (int i = 0; i < sequence.n_rows; ++i) {
        const std::int32_t own = states.own(sequence, i);
        const std::int32_t parent = states.before(sequence, i, 1);
        const bool stays = i > 0 && parent == states.own(sequence, i - 1);
        steps.push_back({.row = own,
                         .from = stays        ? StateStep::kStays
                                 : parent < 0 ? StateStep::kZeros
                                              : parent,
                         .slot = own,
                         .to = sequence.first_row + i});
      }
    }
  }

  /// See detail::ReplayLayer::walk, which does the same at once.
  template <typename L>
  void replay(const SequenceRows& sequence, const StateRows& states, const L& layer) {
    int& kept = kept_.try_emplace(layer.inputs, states.empty ? StateStep::kZeros : layer.kept)
                    .first->second;
    const auto lacking = states.committed.last(idx(states.unapplied));
    for (std::size_t i = 0; i < lacking.size(); ++i) {
      steps.push_back({.row = lacking[i], .from = i == 0 ? kept : StateStep::kStays});
    }
    if (!lacking.empty()) steps.back().slot = kept = 1 - layer.kept;
    for (int i = 0; i < sequence.n_rows; ++i) {
      const bool follows = i > 0 && states.before(sequence, i, 1) == states.own(sequence, i - 1);
      const int above = follows ? 0 : sequence.visible(i) - 1 - sequence.size;
      // The first row begins with what the state has just become.
      int from = follows || (i == 0 && !lacking.empty()) ? StateStep::kStays : kept;
      for (int back = above; back > 0; --back) {
        steps.push_back({.row = states.before(sequence, i, back),
                         .from = std::exchange(from, StateStep::kStays)});
      }
      steps.push_back({.row = states.own(sequence, i), .from = from, .to = sequence.first_row + i});
    }
  }

  std::map<std::pair<const float*, std::int32_t>, int> pass_rows_;  // of a storage's row
  std::map<const float*, int> kept_;  // of a storage: the slot of its state, or kZeros
};

/// Row i of the storage and those before it, weighted: from the oldest to the row itself.
/// @param own  own(row): what row `row` of the pass puts in
/// @param c    the channel, of `width`
/// @shape kernel [n_taps, width], oldest token first
template <typename T, typename F>
FOREDRAFT_DEVICE float convolved(T& t, const StateRow* row, const StateLayer& layer, int n_taps,
                                 const float* kernel, int width, int c, float start, F&& own) {
  float sum = start;
  for (int back = n_taps - 1; back >= 0; --back) {
    const TapPlace tap = t.load(&row->taps[back]);
    if (tap.row < 0) continue;  // before the beginning there are zeros
    const float value = tap.pass_row >= 0 ? own(tap.pass_row) : t.load(layer.row(tap.row) + c);
    const std::size_t at = idx(n_taps - 1 - back) * idx(width);
    sum = t.fma(value, t.load(kernel + at + c), sum);
  }
  return sum;
}

}  // namespace foredraft::inline v0::cuda
