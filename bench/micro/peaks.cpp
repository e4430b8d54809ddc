#include "peaks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include <foredraft/core/index.hpp>

namespace bench {

const ProbeTable& probes_portable() noexcept;
#if defined(__x86_64__)
const ProbeTable& probes_avx2() noexcept;
const ProbeTable& probes_avx_vnni() noexcept;
const ProbeTable& probes_avx512() noexcept;
const ProbeTable& probes_avx512_vnni() noexcept;
#elif defined(__aarch64__)
const ProbeTable& probes_neon() noexcept;
#endif

const ProbeTable& probes_of(fd::cpu::Isa isa) {
  if (isa == fd::cpu::Isa::kPortable) return probes_portable();
#if defined(__x86_64__)
  switch (isa) {
    case fd::cpu::Isa::kAvx2: return probes_avx2();
    case fd::cpu::Isa::kAvxVnni: return probes_avx_vnni();
    case fd::cpu::Isa::kAvx512: return probes_avx512();
    // Wider sets have the int8 dot product of this one too.
    default: return probes_avx512_vnni();
  }
#elif defined(__aarch64__)
  return probes_neon();
#else
  return probes_portable();
#endif
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// f(worker) on all workers at once. @return its time
template <typename F>
double time_of(fd::Cpu& cpu, F&& f) {
  const auto begin = Clock::now();
  cpu.run(fd::PassShape{}, [&](auto& worker) noexcept { f(worker); });
  return seconds_since(begin);
}

/// Whoever reads the result keeps the loops from being removed.
std::atomic<double> g_sink{0};

template <typename Loop>
double rate(fd::Cpu& cpu, Loop loop, double work_per_step) {
  constexpr std::int64_t kSteps = 200'000;  // about a millisecond
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double seconds = time_of(cpu, [&](auto& worker) {
      const double result = static_cast<double>(loop(kSteps));
      if (worker.index() == 0) g_sink.store(result, std::memory_order_relaxed);
    });
    best = std::max(best, work_per_step * static_cast<double>(kSteps) * cpu.threads() / seconds);
  }
  return best;
}

}  // namespace

StreamRead::StreamRead(fd::Cpu& cpu, std::size_t bytes) : cpu_(cpu) {
  const auto workers = foredraft::idx(cpu.threads());
  bytes_ = std::max(bytes / workers / fd::kHugePage, std::size_t{1}) * fd::kHugePage * workers;
  memory_ = fd::take_pages(bytes_, true);
  if (memory_ == nullptr) throw std::bad_alloc();
  // Each worker has its part near itself.
  time_of(cpu_, [&](auto& worker) {
    const std::size_t part = bytes_ / foredraft::idx(worker.count());
    std::memset(memory_.get() + foredraft::idx(worker.index()) * part, 1, part);
  });
  double best = 0;
  for (const int streams : {1, 2, 4}) {
    for (const std::size_t ahead : {std::size_t{0}, std::size_t{2048}, std::size_t{8192}}) {
      double rate = 0;
      for (int i = 0; i < 3; ++i) rate = std::max(rate, timed(streams, ahead));
      if (rate <= best) continue;
      best = rate;
      streams_ = streams;
      ahead_ = ahead;
    }
  }
}

double StreamRead::bytes_per_second() { return timed(streams_, ahead_); }

double StreamRead::timed(int streams, std::size_t ahead) {
  const ProbeTable& probes = probes_of(cpu_.isa());
  const double seconds = time_of(cpu_, [&](auto& worker) {
    const std::size_t part = bytes_ / foredraft::idx(worker.count());
    const auto sum =
        probes.read(memory_.get() + foredraft::idx(worker.index()) * part, part, streams, ahead);
    if (worker.index() == 0) g_sink.store(sum, std::memory_order_relaxed);
  });
  return static_cast<double>(bytes_) / seconds;
}

double dot_peak(fd::Cpu& cpu) {
  const ProbeTable& probes = probes_of(cpu.isa());
  return rate(cpu, probes.dot, probes.macs_per_dot);
}

double fma_peak(fd::Cpu& cpu) {
  const ProbeTable& probes = probes_of(cpu.isa());
  return rate(cpu, probes.fma, probes.macs_per_fma);
}

}  // namespace bench
