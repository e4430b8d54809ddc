#pragma once

#include <algorithm>

#include <foredraft/backend/ring_place.hpp>

namespace foredraft::inline v0 {

/// Where the rows of one layer lie in its part of a storage, and which of them are still there: what
/// a RingStorage has to know, in whichever memory.
///
/// A ring is what a window and staged rows need in whole blocks, so that a block of rows is never
/// cut. Sinks lie before it, in blocks of their own, and are never written over.
struct RowRing {
  static constexpr int kBlock = 32;  // rows

  int window = 0;
  int sinks = 0;           // first rows that others see besides those in their window
  int pinned = 0;          // rows before the ring, whole blocks
  int ring = 0;            // rows that lie in the places of others; 0: each has its own
  int places = 0;          // that there have to be
  int first_restored = 0;  // rows before it were not in the snapshot

  /// @param window  0: none
  /// @param max_staged  rows of a pass; 0: there are no rings
  /// @param n_rows  places where it is none; a ring that would save nothing is none
  static RowRing of(int window, int sinks, int max_staged, int n_rows) noexcept {
    RowRing layer{.window = window, .sinks = window > 0 ? sinks : 0};
    layer.pinned = whole_blocks(layer.sinks);
    layer.places = n_rows;
    if (window == 0 || max_staged == 0) return layer;
    const int length = whole_blocks(window + max_staged);
    if (length >= n_rows - layer.pinned) return layer;
    layer.ring = length;
    layer.places = layer.pinned + length;
    return layer;
  }

  static constexpr int whole_blocks(int n_rows) noexcept {
    return (n_rows + kBlock - 1) / kBlock * kBlock;
  }

  /// The place in which a row lies.
  int place(int row) const noexcept { return ring_place(row, pinned, ring); }
  /// How many rows, from `row` on and before `end`, lie one behind the other.
  int together(int row, int end) const noexcept {
    return ring == 0 ? end - row : std::min(end - row, places - place(row));
  }

  /// The first row but for sinks that a snapshot of `size` rows has: all that holds() vouches for,
  /// no more, but whole where it begins among the pinned ones.
  int first_kept(int size) const noexcept {
    const int first = ring == 0 ? 0 : std::max(0, size - window + 1);
    return first < pinned ? 0 : first;
  }
  /// Rows that a snapshot of `size` rows has.
  int kept(int size) const noexcept { return size - first_kept(size) + sinks_kept(size); }

  /// f(first, end) for ranges of the rows begin .. end - 1, of a ring for those that a snapshot of
  /// all `end` rows has.
  template <typename F>
  void for_each_kept(int begin, int end, F&& f) const {
    if (const int n = sinks_kept(end); n > 0) f(0, n);
    if (const int first = std::max(begin, first_kept(end)); first < end) f(first, end);
  }

  /// Whether it still has what rows behind the first `size` read.
  /// @param written  one behind the last row that may have been written
  bool holds(int size, int written) const noexcept {
    return ring == 0 || first_kept(size) >= lowest(written);
  }

 private:
  /// Sinks that a snapshot has before its first other row.
  int sinks_kept(int size) const noexcept { return first_kept(size) > 0 ? sinks : 0; }

  /// The first row that nothing has been written over.
  int lowest(int written) const noexcept {
    const int over = written - ring;
    return std::max(first_restored, over > pinned ? over : 0);
  }
};

}  // namespace foredraft::inline v0
