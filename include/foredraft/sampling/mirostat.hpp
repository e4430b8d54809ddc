#pragma once

#include <cmath>
#include <optional>

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
    return mu_.value_or(2.0 * options.mirostat_tau);
  }

  /// @param p of the token, after all transforms; a token that cannot be moves nothing
  void observe(const SamplingOptions& options, double p) noexcept {
    if (!(p > 0)) return;
    mu_ = most_surprise(options) + options.mirostat_eta * (options.mirostat_tau + std::log2(p));
  }

  friend bool operator==(const Mirostat&, const Mirostat&) = default;

 private:
  std::optional<double> mu_;  // nothing: no token so far
};

}  // namespace foredraft::inline v0
