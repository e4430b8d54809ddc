#pragma once

#include <csignal>
#include <initializer_list>
#include <vector>

namespace cli {

/// While one of these lives, SIGINT only takes note, or other signals do.
class InterruptGuard {
 public:
  enum class Second {
    kEnds,  ///< a second signal ends the program
    kToo,   ///< takes note, too: for a program that asks what to do next
  };
  explicit InterruptGuard(Second second = Second::kEnds,
                          std::initializer_list<int> signals = {SIGINT});
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted() noexcept;
  /// Wait for the next one.
  static void forget() noexcept;

 private:
  std::vector<int> signals_;
};

}  // namespace cli
