#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// How long an answer will become, by the last ones. Nobody knows, but an investment has to pay in
/// what is left of it. Tasks come again, and their prompts are about as long as before: so of earlier
/// answers those count whose prompts were about as long as this one.
class AnswerLengths {
 public:
  /// @units tokens
  struct Answer {
    std::int32_t prompt = 0;  ///< before it
    std::int32_t length = 0;

    friend bool operator==(const Answer&, const Answer&) = default;
  };
  static constexpr std::size_t kLast = 32;
  using Last = std::array<Answer, kLast>;  ///< a ring

  AnswerLengths() = default;
  /// @param n  of all answers so far, the last of which are known
  AnswerLengths(const Last& last, std::int64_t n) noexcept : last_(last), n_(n) {}

  void add(Answer answer) noexcept { last_[idx(n_++) % last_.size()] = answer; }
  const Last& last() const noexcept { return last_; }
  std::int64_t n() const noexcept { return n_; }

  /// @units tokens
  struct Rest {
    double mean = 0;
    double safe = 0;  ///< only one answer in four had less
  };
  /// What an answer will still have that is as long as `now` says: as those of up to eight answers
  /// that became longer, and as one more of which nothing is known but that what is old lives on.
  /// @param most  that the call allows
  Rest rest(Answer now, int most) const noexcept {
    std::array<int, kNearest + 1> more{};
    std::size_t n = 0;
    more[n++] = std::max<int>(now.length, kUnknown);
    std::array<Near, kLast> near{};
    for (const Near& other : nearest(now.prompt, near)) {
      if (other.length > now.length) more[n++] = other.length - now.length;
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
  static constexpr std::size_t kNearest = 8;
  static constexpr std::size_t kFew = 3;
  static constexpr double kAlike = 1.6;  // a prompt so many times as long is that of another task
  static constexpr int kUnknown = 32;    // tokens that an answer goes on of which nothing is known

  struct Near {
    double ratio = 0;  // of the longer prompt to the shorter one
    std::int64_t age = 0;
    int length = 0;
  };

  /// The last answers to prompts like one of `prompt` tokens, the newest of equals first; and the
  /// nearest few in any case.
  std::span<const Near> nearest(int prompt, std::span<Near> near) const noexcept {
    near = near.first(std::min(idx(n_), near.size()));
    for (std::size_t age = 0; age < near.size(); ++age) {
      const Answer& answer = last_[(idx(n_) - 1 - age) % last_.size()];
      const auto [shorter, longer] = std::minmax({answer.prompt + 1.0, prompt + 1.0});
      near[age] = {longer / shorter, static_cast<std::int64_t>(age), answer.length};
    }
    std::sort(near.begin(), near.end(), [](const Near& a, const Near& b) {
      return a.ratio != b.ratio ? a.ratio < b.ratio : a.age < b.age;
    });
    near = near.first(std::min(near.size(), kNearest));
    std::size_t n = std::min(near.size(), kFew);
    while (n < near.size() && near[n].ratio < kAlike) ++n;
    return near.first(n);
  }

  Last last_{};
  std::int64_t n_ = 0;
};

}  // namespace foredraft::inline v0
