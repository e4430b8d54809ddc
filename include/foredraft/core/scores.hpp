#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// How much of each row of the target somebody reads. Each level includes those before it.
enum class RowNeed : std::uint8_t {
  kNothing,  ///< only keys, values and states are wanted (prefill)
  kArgmax,   ///< the best token
  kTop,      ///< the Scores::kTop best, which are in the logits where the target does not name them
  kLogits,   ///< all n_vocab logits
  kSums,     ///< and, if the target can, the sums of their weights at Want::temperature
};

/// What a forward pass has to produce for its rows: the union over acceptance, drafter and
/// logprobs. A target asks Scores::need(), behind reset(), how much of it is left to do.
struct Want {
  RowNeed rows = RowNeed::kArgmax;
  /// Layers whose output (the residual stream after that layer) is exposed; a tap costs one copy a
  /// row.
  std::span<const int> taps;
  float temperature = 1.0f;  ///< of kSums; above 0
};

/// What a target may hand over of the runs of Scores::kRun tokens of a row, so that a reader who
/// wants the likeliest tokens, or the probability of one, need not look at all of them. What it does
/// not hand over is empty.
/// @shape [ceil(n_vocab / Scores::kRun)]
struct Runs {
  std::span<const float> maxima = {};  ///< greatest logit of each run
  /// Sum of each run's weights exp((x - maximum) / temperature), to 1e-9 of it; that of a run of
  /// nothing but -inf is not looked at. The text is the same as without them, to the bit, if
  /// sum_of_weights() makes them.
  std::span<const double> sums = {};
  float temperature = 0.0f;  ///< of the sums
};

/// Rows that a target hands back: one for each forwarded node of a request. Owned by the caller,
/// filled by forward(), overwritten by the next pass.
class Scores {
 public:
  static constexpr std::size_t kRun = 128;
  static constexpr int kTop = 8;

  /// Make room. The target's forward() calls it first.
  /// @param finds_top  the target fills top() where it is wanted; otherwise it is asked for logits
  /// @cost O(n_rows * n_vocab) memory, kept across calls
  void reset(const Want& want, int n_rows, int n_vocab, int d_model = 0, bool finds_top = false) {
    n_vocab_ = idx(n_vocab);
    d_model_ = idx(d_model);
    layers_.assign(want.taps.begin(), want.taps.end());
    std::sort(layers_.begin(), layers_.end());
    layers_.erase(std::unique(layers_.begin(), layers_.end()), layers_.end());
    rows_ = n_rows;
    need_ = want.rows == RowNeed::kTop && !finds_top ? RowNeed::kLogits : want.rows;
    const auto rows = idx(n_rows);
    argmax_.assign(need_ == RowNeed::kNothing ? 0 : rows, TokenId{-1});
    if (has_logits() && logits_.size() < rows * n_vocab_) logits_.resize(rows * n_vocab_);
    top_.assign(need_ == RowNeed::kTop ? rows * idx(kTop) : 0, TokenId{-1});
    temperature_ = want.temperature;
    has_maxima_ = false;
    has_sums_ = false;
    if (taps_.size() < rows * layers_.size() * d_model_)
      taps_.resize(rows * layers_.size() * d_model_);
  }

  int rows() const noexcept { return rows_; }
  RowNeed need() const noexcept { return need_; }

  /// Greatest logit of a row, ties to the lowest id; -1 where the row holds a NaN, +inf, or nothing
  /// but -inf.
  TokenId argmax(int row) const noexcept { return argmax_[idx(row)]; }

  /// The tokens with the greatest logits, best first, ties to the lower id; -1 behind the last that is
  /// above -inf. @shape [kTop]; empty unless need() is kTop: with more, logits() tells
  std::span<const TokenId> top(int row) const noexcept {
    if (top_.empty()) return {};
    return {top_.data() + idx(row) * idx(kTop), idx(kTop)};
  }

  /// @shape [n_vocab]; empty unless kLogits or more was wanted
  std::span<const float> logits(int row) const noexcept {
    if (!has_logits()) return {};
    return {logits_.data() + idx(row) * n_vocab_, n_vocab_};
  }

  /// What the target has handed over; nothing for a row without argmax.
  Runs runs(int row) const noexcept {
    if (argmax_.empty() || argmax(row) < 0) return {};
    const std::size_t first = idx(row) * n_runs();
    Runs runs{.temperature = temperature_};
    if (has_maxima_) runs.maxima = {maxima_.data() + first, n_runs()};
    if (has_sums_) runs.sums = {sums_.data() + first, n_runs()};
    return runs;
  }

  /// Residual stream after `layer`, which is named and not counted: so whoever combines readers
  /// hands these rows on as they are. @shape [d_model]
  /// @errors kInvalidOption for a tap that was not asked for: nobody wrote it
  std::span<const float> tap(int row, int layer) const {
    return {taps_.data() + tap_offset(row, layer), d_model_};
  }

  // For targets.
  std::span<TokenId> argmax() noexcept { return argmax_; }
  std::span<TokenId> top(int row) noexcept {
    if (top_.empty()) return {};
    return {top_.data() + idx(row) * idx(kTop), idx(kTop)};
  }
  std::span<float> logits(int row) noexcept {
    if (!has_logits()) return {};
    return {logits_.data() + idx(row) * n_vocab_, n_vocab_};
  }
  /// Places for Runs, empty where nobody wants them. To ask for them is to promise that they will be
  /// filled, for every row of the pass.
  /// @cost memory O(n_rows * n_vocab / kRun), kept across calls
  std::span<float> hand_over_maxima(int row) {
    if (!has_logits()) return {};
    has_maxima_ = true;
    return of_runs(maxima_, row);
  }
  std::span<double> hand_over_sums(int row) {
    if (need_ < RowNeed::kSums) return {};
    has_sums_ = true;
    return of_runs(sums_, row);
  }
  /// The layers to be tapped, ascending, each once.
  std::span<const int> tapped() const noexcept { return layers_; }
  std::span<float> tap(int row, int layer) {
    return {taps_.data() + tap_offset(row, layer), d_model_};
  }

  /// Store a whole row of logits and derive what was wanted of it: the way in for an engine that
  /// has the logits anyway. @shape row_logits [n_vocab] @cost O(n_vocab)
  void set_row(int row, std::span<const float> row_logits) noexcept {
    if (need_ == RowNeed::kNothing) return;
    argmax_[idx(row)] = argmax_of(row_logits);
    if (has_logits()) {
      float* to = logits_.data() + idx(row) * n_vocab_;
      for (std::size_t i = 0; i < n_vocab_; ++i) to[i] = row_logits[i];
    }
  }

  /// Id of the greatest value, ties to the lowest id; -1 where there is a NaN, +inf, or no value
  /// above -inf.
  static TokenId argmax_of(std::span<const float> values) noexcept {
    TokenId best = -1;
    float greatest = -std::numeric_limits<float>::infinity();
    bool damaged = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      damaged |= !(values[i] <= std::numeric_limits<float>::max());  // NaN too
      if (values[i] > greatest) {
        greatest = values[i];
        best = static_cast<TokenId>(i);
      }
    }
    return damaged ? -1 : best;
  }

 private:
  bool has_logits() const noexcept { return need_ >= RowNeed::kLogits; }
  std::size_t n_runs() const noexcept { return (n_vocab_ + kRun - 1) / kRun; }
  template <typename T>
  std::span<T> of_runs(std::vector<T>& values, int row) {
    const std::size_t all = idx(rows_) * n_runs();
    if (values.size() < all) values.resize(all);
    return {values.data() + idx(row) * n_runs(), n_runs()};
  }
  std::size_t tap_offset(int row, int layer) const {
    const auto place = std::lower_bound(layers_.begin(), layers_.end(), layer);
    if (row < 0 || row >= rows_ || place == layers_.end() || *place != layer) {
      throw Error(ErrorCode::kInvalidOption,
                  "a tap of layer " + std::to_string(layer) + " in row " + std::to_string(row),
                  "one of " + std::to_string(layers_.size()) + " layers and " +
                      std::to_string(rows_) + " rows that were asked for",
                  "name the layer in the drafter's taps()");
    }
    return (idx(row) * layers_.size() + idx(place - layers_.begin())) * d_model_;
  }

  std::size_t n_vocab_ = 0;
  std::size_t d_model_ = 0;
  std::vector<int> layers_;  // [n_taps] that are tapped
  int rows_ = 0;
  RowNeed need_ = RowNeed::kNothing;
  std::vector<TokenId> argmax_;  // [rows]
  std::vector<TokenId> top_;     // [rows, kTop]
  std::vector<float> logits_;    // [rows, n_vocab]
  bool has_maxima_ = false;
  bool has_sums_ = false;
  float temperature_ = 0.0f;
  std::vector<float> maxima_;  // [rows, n_runs]
  std::vector<double> sums_;   // [rows, n_runs]
  std::vector<float> taps_;    // [rows, n_taps, d_model]
};

}  // namespace foredraft::inline v0
