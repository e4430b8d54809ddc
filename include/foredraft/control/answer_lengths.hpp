#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// How long an answer will become, by the last ones. Nobody knows, but an investment has to pay in
/// what is left of it.
class AnswerLengths {
 public:
  /// @units tokens, in a ring
  using Last = std::array<std::int32_t, 8>;

  AnswerLengths() = default;
  /// @param n  of all answers so far, the last of which are known
  AnswerLengths(const Last& last, std::int64_t n) noexcept : last_(last), n_(n) {}

  void add(int tokens) noexcept { last_[idx(n_++) % last_.size()] = tokens; }
  const Last& last() const noexcept { return last_; }
  std::int64_t n() const noexcept { return n_; }

  /// @units tokens
  struct Rest {
    double mean = 0;
    double safe = 0;  ///< only one answer in four had less
  };
  /// What an answer of `length` tokens will still have: as those of the last ones that became longer,
  /// and as one more of which nothing is known but that what is old lives on.
  /// @param most  that the call allows
  Rest rest(int length, int most) const noexcept {
    std::array<int, std::tuple_size_v<Last> + 1> more{};
    std::size_t n = 0;
    more[n++] = std::max(length, kUnknown);
    const auto known = std::min<std::int64_t>(n_, std::ssize(last_));
    for (std::int64_t i = 0; i < known; ++i) {
      if (last_[idx(i)] > length) more[n++] = last_[idx(i)] - length;
    }
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      more[i] = std::min(more[i], most);
      sum += more[i];
    }
    std::nth_element(more.begin(), more.begin() + n / 4, more.begin() + n);
    return {sum / static_cast<double>(n), static_cast<double>(more[n / 4])};
  }

 private:
  static constexpr int kUnknown = 32;  // tokens that an answer goes on of which nothing is known

  Last last_{};
  std::int64_t n_ = 0;
};

}  // namespace foredraft::inline v0
