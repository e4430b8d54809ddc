#pragma once

#include <stdexcept>
#include <string>

namespace foredraft {}

/// The program `foredraft`: subcommands over the library, one file each.
namespace cli {

namespace fd = ::foredraft;

inline constexpr int kExitFailure = 1;      ///< the work could not be done
inline constexpr int kExitUsage = 2;        ///< the arguments make no sense
inline constexpr int kExitInterrupt = 130;  ///< as shells report SIGINT: 128 + 2

/// Arguments that contradict each other, or one that would have no effect.
class UsageError : public std::runtime_error {
 public:
  UsageError(const std::string& found, const std::string& hint)
      : std::runtime_error(found + "; hint: " + hint) {}
};

}  // namespace cli
