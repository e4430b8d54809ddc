#pragma once

#include <cmath>
#include <limits>

#include <foredraft/core/sampling_options.hpp>

namespace foredraft::inline v0 {

/// What mirostat 2 carries from token to token: its bound on surprise, mu. It begins at 2 tau, and a
/// token of probability p moves it by eta (tau + log2 p). It follows the path like a penalty: drafted
/// tokens move copies, and only final ones the state of a sequence.
/// @source Basu et al. 2020, arXiv:2007.14966, Alg. 2
class Mirostat {
 public:
  /// @units bits
  double most_surprise(const SamplingOptions& options) const noexcept {
    return mu_ == kNone ? 2.0 * options.mirostat_tau : mu_;
  }

  /// @param p of the token, after all transforms; a token that cannot be moves nothing
  void observe(const SamplingOptions& options, double p) noexcept {
    if (!(p > 0)) return;
    mu_ = most_surprise(options) + options.mirostat_eta * (options.mirostat_tau + std::log2(p));
  }

  friend bool operator==(const Mirostat&, const Mirostat&) = default;

  /// What a saved snapshot holds of it.
  static void parts(auto& self, auto& archive) { archive(self.mu_); }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();  // no token so far
  double mu_ = kNone;
};

}  // namespace foredraft::inline v0
