#pragma once

#include <optional>

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

  /// What a pass of so many rows should take; nothing where no pass was learned.
  std::optional<double> expected(int rows) const noexcept {
    if (weight_ == 0) return std::nullopt;
    const Line known = line();
    return known.fixed + known.by_row * rows;
  }

  /// @param rows  of the text, in a pass of `all_rows` (1 or more) by `texts` texts (likewise) that
  ///   took `seconds`
  /// @return its part; those of all texts add up to `seconds`
  double of(int rows, int all_rows, int texts, double seconds) const noexcept {
    const Line known = line();
    const double all = known.fixed + known.by_row * all_rows;
    const double by_rows = all > 0 ? known.by_row * all_rows / all : 0;
    return seconds * ((1 - by_rows) / texts + by_rows * rows / all_rows);
  }

 private:
  static constexpr double kKeep = 0.95;  // of what is known, at each pass

  struct Line {
    double fixed = 0, by_row = 0;  // neither below 0
  };

  /// Passes that were alike say nothing of rows: as if these cost nothing.
  Line line() const noexcept {
    if (weight_ == 0) return {};
    const Line flat{.fixed = seconds_ / weight_};
    const double spread = weight_ * squares_ - rows_ * rows_;
    if (!(spread > 1e-9 * squares_ * weight_)) return flat;
    const double slope = (weight_ * products_ - rows_ * seconds_) / spread;
    const double fixed = (seconds_ - slope * rows_) / weight_;
    if (!(slope > 0)) return flat;
    return fixed > 0 ? Line{fixed, slope} : Line{0, seconds_ / rows_};
  }

  // Sums over the passes so far.
  double weight_ = 0, rows_ = 0, seconds_ = 0, squares_ = 0, products_ = 0;
};

}  // namespace foredraft::inline v0
