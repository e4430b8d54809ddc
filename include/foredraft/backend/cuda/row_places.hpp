#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/key_values.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// The rows of a pass as kernels read them, in groups of as many sequences as one launch serves.
struct RowPlaces {
  struct Group {
    int first_sequence = 0;
    int n_sequences = 0;
    int first = 0;    // of `rows`
    int n_rows = 0;   // of them
    int visible = 0;  // of the row that sees most
  };

  std::vector<RowPlace> rows = {};
  std::vector<int> nodes = {};  // of all paths
  std::vector<Group> groups = {};

  explicit RowPlaces(std::span<const SequenceRows> sequences) {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      if (s % idx(kSequences) == 0) {
        groups.push_back({.first_sequence = static_cast<int>(s),
                          .n_sequences = 0,
                          .first = static_cast<int>(rows.size()),
                          .n_rows = 0,
                          .visible = 0});
      }
      Group& group = groups.back();
      ++group.n_sequences;
      add(sequences[s], static_cast<int>(s % idx(kSequences)), group);
    }
    std::erase_if(groups, [](const Group& group) { return group.n_rows == 0; });
  }

 private:
  void add(const SequenceRows& sequence, int index, Group& group) {
    const int begin = static_cast<int>(nodes.size());
    const int skipped = sequence.chain() ? 0 : sequence.path_begin[0];  // paths of other rows
    for (int i = 0; i < sequence.n_rows; ++i) {
      const int path = sequence.chain() ? -1 : begin + sequence.path_begin[idx(i)] - skipped;
      rows.push_back({.row = sequence.first_row + i,
                      .sequence = index,
                      .own_row = sequence.row_of(sequence.first_node + i),
                      .size = sequence.size,
                      .visible = sequence.visible(i),
                      .path = path});
      group.visible = std::max(group.visible, sequence.visible(i));
    }
    group.n_rows += sequence.n_rows;
    if (sequence.chain()) return;
    const auto used = sequence.path.subspan(
        idx(skipped), idx(sequence.path_begin[idx(sequence.n_rows)] - skipped));
    nodes.insert(nodes.end(), used.begin(), used.end());
  }
};

}  // namespace foredraft::inline v0::cuda
