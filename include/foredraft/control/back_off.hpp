#pragma once

#include <algorithm>

namespace foredraft::inline v0 {

/// Turns that come every so many rounds, less and less often.
struct BackOff {
  int interval = 4;  ///< rounds between the last turn and the next
  int waited = 0;    ///< of these, those that are over

  /// Another round. @return whether it is a turn, behind which the interval doubles, up to 512
  bool due() noexcept {
    if (++waited < interval) return false;
    waited = 0;
    interval = std::min(interval * 2, 512);
    return true;
  }
};

}  // namespace foredraft::inline v0
