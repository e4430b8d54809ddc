#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// What a pass of the target costs by its number of rows, learned from the rounds themselves.
///
/// A machine decides how much cheaper eight rows are than eight passes, so nothing is assumed for
/// longer than it takes to measure it. Rows are gathered in classes (each of the first eight, then
/// fewer), and contexts in bands, because attention grows with the context. What was not measured
/// lies between its measured neighbours; beyond them a row costs what it does on a typical machine, and
/// not less than the measured ones did.
/// @units seconds @cost learn O(1), but for the first of a kind; curve O(64), once behind each pass
class PassCost {
 public:
  static constexpr int kMostRows = DraftTree::kMaxNodes;
  static constexpr std::size_t kClasses = 15;
  static constexpr std::size_t kBands = 4;
  static constexpr int kMostSamples = 1 << 20;  // more say nothing more

  struct Mean {
    double seconds = 0;
    int samples = 0;  ///< 0: not measured

    friend bool operator==(const Mean&, const Mean&) = default;
  };
  /// By rows, [0 .. kMostRows]; entry 0 is 0.
  using Curve = std::array<double, kMostRows + 1>;
  /// By context, then by number of rows.
  using State = std::array<std::array<Mean, kClasses>, kBands>;

  /// A pass of `rows` rows behind `context` committed positions took `seconds`.
  void learn(int rows, int context, double seconds) noexcept {
    if (rows < 1 || rows > kMostRows || !(seconds > 0)) return;
    Mean& mean = bands_[band_of(context)][class_of(rows)];
    if (mean.samples == 0) mean.seconds = most_rows() > 0 ? curve(context)[idx(rows)] : seconds;
    // A pass may be late for reasons of its own (another program, a page fault), never early: so no
    // late one, be it the first of its kind, moves the mean by much.
    const double surprise = std::min(seconds / mean.seconds - 1.0, kSurprise);
    mean.seconds *= 1.0 + surprise * (mean.samples < kFew ? 1.0 : kForget);
    if (mean.samples < kMostSamples) ++mean.samples;
    most_rows_ = std::max(most_rows_, kEnds[class_of(rows)]);
    curve_of_ = kNoBand;
  }

  /// Seconds of a pass by its rows. While nothing was measured, a typical machine's where a pass of one
  /// row takes a second. Good until the next call.
  const Curve& curve(int context) const noexcept {
    const std::size_t band = band_of(context);
    if (curve_of_ != band) {
      curve_ = curve_of(band);
      curve_of_ = band;
    }
    return curve_;
  }

  /// The end of the greatest class of which passes were measured, in whatever context; 0: of none.
  int most_rows() const noexcept { return most_rows_; }

  const State& state() const noexcept { return bands_; }
  /// Go on from there. @param state  of numbers that check() of controller_state.hpp lets pass
  void restore(const State& state) noexcept {
    bands_ = state;
    curve_of_ = kNoBand;
    most_rows_ = 0;
    for (const Band& band : bands_) {
      for (std::size_t c = 0; c < kClasses; ++c) {
        if (band[c].samples > 0) most_rows_ = std::max(most_rows_, kEnds[c]);
      }
    }
  }

 private:
  static constexpr std::array<int, kClasses> kEnds = {1,  2,  3,  4,  5,  6,  7, 8,
                                                      10, 12, 16, 24, 32, 48, 64};
  static constexpr double kForget = 0.2;
  static constexpr double kSurprise = 0.25;
  static constexpr int kFew = 4;  // first samples of a kind, which replace the mean

  using Band = std::array<Mean, kClasses>;

  /// Some machine's pass of so many rows in passes of one: eight are nearly free, then arithmetic
  /// begins to count.
  static double typical(int rows) noexcept {
    return 1.0 + 0.03 * (std::min(rows, 8) - 1) + 0.08 * std::max(rows - 8, 0);
  }
  static std::size_t class_of(int rows) noexcept {
    return idx(std::lower_bound(kEnds.begin(), kEnds.end(), rows) - kEnds.begin());
  }
  /// Up to 511 positions, 2047, 8191 and more.
  static std::size_t band_of(int context) noexcept {
    const auto doublings = std::bit_width(static_cast<unsigned>(std::max(context, 0)) / 512u);
    return std::min<std::size_t>((idx(doublings) + 1) / 2, kBands - 1);
  }
  Curve curve_of(std::size_t wanted) const noexcept {
    Curve seconds{};
    const Band* band = nearest_measured(wanted);
    if (band == nullptr) {
      for (int rows = 1; rows <= kMostRows; ++rows) seconds[idx(rows)] = typical(rows);
      return seconds;
    }
    int below = 0;  // the last measured rows
    for (std::size_t c = 0; c < kClasses; ++c) {
      const Mean& mean = (*band)[c];
      if (mean.samples == 0) continue;
      const int rows = kEnds[c];
      for (int between = below + 1; between <= rows; ++between) {
        seconds[idx(between)] = below == 0
                                    ? mean.seconds * typical(between) / typical(rows)
                                    : seconds[idx(below)] + (mean.seconds - seconds[idx(below)]) *
                                                                (between - below) / (rows - below);
      }
      below = rows;
    }
    // Beyond, a row is not cheaper than the measured ones were.
    const double row = (seconds[idx(below)] - seconds[1]) / std::max(below - 1, 1);
    for (int rows = below + 1; rows <= kMostRows; ++rows) {
      seconds[idx(rows)] = std::max(seconds[idx(below)] * typical(rows) / typical(below),
                                    seconds[idx(below)] + row * (rows - below));
    }
    // More rows are never cheaper: where a measurement says so, it was disturbed.
    for (int rows = kMostRows - 1; rows >= 1; --rows) {
      seconds[idx(rows)] = std::min(seconds[idx(rows)], seconds[idx(rows + 1)]);
    }
    return seconds;
  }
  const Band* nearest_measured(std::size_t wanted) const noexcept {
    const auto measured = [](const Band& band) {
      return std::any_of(band.begin(), band.end(), [](const Mean& m) { return m.samples > 0; });
    };
    for (std::size_t away = 0; away < kBands; ++away) {
      if (wanted >= away && measured(bands_[wanted - away])) return &bands_[wanted - away];
      if (wanted + away < kBands && measured(bands_[wanted + away])) return &bands_[wanted + away];
    }
    return nullptr;
  }

  static constexpr std::size_t kNoBand = kBands;
  State bands_{};
  int most_rows_ = 0;
  mutable std::size_t curve_of_ = kNoBand;  // the band that curve_ is of
  mutable Curve curve_{};
};

}  // namespace foredraft::inline v0
