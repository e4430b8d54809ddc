#pragma once

#include <string>
#include <string_view>

#include <foredraft/core/error.hpp>

/// The program `foredraft`: subcommands over the library, one file each.
namespace cli {

namespace fd = ::foredraft;

inline constexpr int kExitFailure = 1;      ///< the work could not be done
inline constexpr int kExitUsage = 2;        ///< the arguments make no sense
inline constexpr int kExitInterrupt = 130;  ///< as shells report SIGINT: 128 + 2

/// Arguments that make no sense, contradict each other, or would have no effect: the error of an
/// option of the library, in the words of the command line.
class UsageError : public fd::Error {
 public:
  UsageError(std::string_view found, std::string_view expected, std::string_view hint)
      : fd::Error(fd::ErrorCode::kInvalidOption, found, expected, hint) {}
};

/// The same error, about the thing that `where` names: one of two files.
inline fd::Error error_in(std::string_view where, const fd::Error& error) {
  return fd::Error(error.code(), std::string(where) + ": " + error.found(), error.expected(),
                   error.hint());
}

}  // namespace cli
