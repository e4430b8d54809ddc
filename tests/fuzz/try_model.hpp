#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fuzz {

enum class TryBackend : std::uint8_t {
  kReference,
  kCpu,         ///< one worker
  kCpuWorkers,  ///< three, which divide work elsewhere
};
enum class TryCache : std::uint8_t {
  kFloat,
  kHalf,
  kQ8
};

/// Load a model from the bytes of a file and run it: a prompt, a chain, the same chain inside a
/// tree, a commit, a way back. The units behind it are compiled once for all targets.
/// @errors foredraft::Error where file or model are refused; std::logic_error where a row changes
///   with what shares its pass
void try_model(std::span<const std::byte> file, TryBackend backend, TryCache cache);

}  // namespace fuzz
