#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/core/pages.hpp>

/// What a machine can do at most, measured with the vectors that the kernels use. Everything that
/// is called "of the peak" or "of the stream read" is divided by these numbers.
namespace bench {

namespace fd = foredraft;

/// The loops of one instruction set; each is compiled in a unit with that set's flags.
struct ProbeTable {
  /// Read a run of memory as `streams` (1, 2 or 4) parallel ones, prefetching `ahead` bytes (0:
  /// not at all). The sum only keeps the loads alive. @param bytes a multiple of 1024
  std::int32_t (*read)(const std::byte* from, std::size_t bytes, int streams,
                       std::size_t ahead) noexcept;
  /// `steps` times twelve independent int8 dot products, activations from the first-level cache.
  std::int32_t (*dot)(std::int64_t steps) noexcept;
  /// Likewise with a float multiply-add.
  float (*fma)(std::int64_t steps) noexcept;
  double macs_per_dot;  ///< products of one call's step
  double macs_per_fma;
};

const ProbeTable& probes_of(fd::cpu::Isa isa);

/// Reads memory that is too large for any cache, with all workers of a backend, each its own part.
class StreamRead {
 public:
  /// The quickest of several ways to read is found once, here.
  explicit StreamRead(fd::Cpu& cpu, std::size_t bytes = kBytes);

  /// One read of everything. @units bytes a second
  double bytes_per_second();

  int streams() const noexcept { return streams_; }
  std::size_t ahead() const noexcept { return ahead_; }

 private:
  static constexpr std::size_t kBytes = std::size_t{512} << 20;

  double timed(int streams, std::size_t ahead);

  fd::Cpu& cpu_;
  std::size_t bytes_;
  fd::Pages memory_;
  int streams_ = 1;
  std::size_t ahead_ = 0;
};

/// int8 products a second, all workers together: the best of a few runs of a millisecond.
double dot_peak(fd::Cpu& cpu);
/// Float multiply-adds a second, likewise.
double fma_peak(fd::Cpu& cpu);

}  // namespace bench
