#pragma once

namespace foredraft::inline v0 {

/// What each of several texts pays for a pass that they share.
///
/// A pass takes some time whatever is in it, mostly to read the weights, and more with each row. The
/// first part is shared equally, the second by rows. So a text that drafts pays for the rows of its
/// draft what they cost all texts together, and not what an even split of the pass would say. Both
/// parts are learned from the passes: a line through the newer ones.
/// @cost O(1)
class PassShare {
 public:
  /// A pass of `rows` rows took `seconds`.
  void learn(int rows, double seconds) noexcept {
    if (rows < 1 || !(seconds > 0)) return;
    const double x = rows;
    weight_ = kKeep * weight_ + 1;
    rows_ = kKeep * rows_ + x;
    seconds_ = kKeep * seconds_ + seconds;
    squares_ = kKeep * squares_ + x * x;
    products_ = kKeep * products_ + x * seconds;
  }

  /// @param rows  of the text, in a pass of `all_rows` by `texts` texts that took `seconds`
  /// @return its part; those of all texts add up to `seconds`
  double of(int rows, int all_rows, int texts, double seconds) const noexcept {
    const double by_rows = part_by_rows(all_rows);
    return seconds * ((1 - by_rows) / texts + by_rows * rows / all_rows);
  }

 private:
  static constexpr double kKeep = 0.95;  // of what is known, at each pass

  /// How much of a pass of so many rows its rows take, 0 .. 1. Passes that were alike say nothing of
  /// it: then none.
  double part_by_rows(int rows) const noexcept {
    const double spread = weight_ * squares_ - rows_ * rows_;
    if (!(spread > 1e-9 * squares_ * weight_)) return 0;
    const double slope = (weight_ * products_ - rows_ * seconds_) / spread;
    const double fixed = (seconds_ - slope * rows_) / weight_;
    if (!(slope > 0)) return 0;
    return fixed > 0 ? slope * rows / (fixed + slope * rows) : 1;
  }

  // Sums over the passes so far.
  double weight_ = 0, rows_ = 0, seconds_ = 0, squares_ = 0, products_ = 0;
};

}  // namespace foredraft::inline v0
