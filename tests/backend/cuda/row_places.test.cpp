#include <foredraft/backend/cuda/row_places.hpp>

#include <vector>

#include <foredraft/cache/staged_tree.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cuda::kSequences;
using fd::cuda::RowPlace;
using fd::cuda::RowPlaces;

namespace {

/// The storage row of a position, as kernels find it.
int row_of(const RowPlaces& places, const RowPlace& row, int position) {
  if (position < row.size || row.path < 0) return position;
  return row.size + places.nodes[fd::idx(row.path + position - row.size)];
}

}  // namespace

TEST_CASE("rows of chains, trees and parts of trees, each as its sequence describes it") {
  fd::StagedTree tree(16);
  tree.stage(std::vector<fd::Node>{{1, -1}, {2, 0}, {3, 0}, {4, 2}, {5, -1}, {6, 3}});
  const fd::StagedTree::Paths all = tree.paths(0, 6);
  const fd::StagedTree::Paths part = tree.paths(2, 4);
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0,
       .n_rows = 6,
       .first_node = 0,
       .size = 10,
       .path = all.nodes,
       .path_begin = all.begin},
      {.first_row = 6, .n_rows = 3, .first_node = 1, .size = 7, .path = {}, .path_begin = {}},
      {.first_row = 9,
       .n_rows = 4,
       .first_node = 2,
       .size = 20,
       .path = part.nodes,
       .path_begin = part.begin}};
  const RowPlaces places(sequences);
  REQUIRE(places.rows.size() == 13);
  REQUIRE(places.groups.size() == 1);
  CHECK(places.groups[0].n_rows == 13);
  CHECK(places.groups[0].n_sequences == 3);
  int most = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (int i = 0; i < sequences[s].n_rows; ++i) {
      const RowPlace& row = places.rows[fd::idx(sequences[s].first_row + i)];
      CHECK(row.row == sequences[s].first_row + i);
      CHECK(row.sequence == static_cast<int>(s));
      CHECK(row.own_row == sequences[s].size + sequences[s].first_node + i);
      CHECK(row.visible == sequences[s].visible(i));
      for (int p = 0; p < row.visible; ++p)
        CHECK(row_of(places, row, p) == sequences[s].row_of(i, p));
      most = std::max(most, row.visible);
    }
  }
  CHECK(places.groups[0].visible == most);
}

TEST_CASE("sequences are grouped as launches serve them") {
  std::vector<fd::SequenceRows> sequences;
  for (int i = 0; i < 2 * kSequences + 1; ++i) {
    sequences.push_back({.first_row = 2 * i,
                         .n_rows = 2,
                         .first_node = 0,
                         .size = i,
                         .path = {},
                         .path_begin = {}});
  }
  const RowPlaces places(sequences);
  REQUIRE(places.groups.size() == 3);
  CHECK(places.groups[1].first == 2 * kSequences);
  CHECK(places.groups[1].first_sequence == kSequences);
  CHECK(places.groups[1].n_sequences == kSequences);
  CHECK(places.groups[2].n_sequences == 1);
  CHECK(places.groups[2].n_rows == 2);
  CHECK(places.groups[2].visible == 2 * kSequences + 2);
  CHECK(places.rows[fd::idx(4 * kSequences)].sequence == 0);
}
