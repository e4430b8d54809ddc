// The probes of one instruction set. Compiled once for each, with FOREDRAFT_PROBES naming the
// function that this copy defines.

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/simd.hpp>

#include "peaks.hpp"

namespace bench {

namespace {

using S = fd::cpu::Simd<fd::cpu::NativeArch>;

/// Independent chains: two units with a latency of four to five cycles are kept busy.
/// Only constant indices below: one loop over the sums would put all of them into memory.
constexpr int kChains = 12;
constexpr std::size_t kVector = sizeof(S::I);

template <int streams, bool prefetches>
std::int32_t read_streams(const std::byte* from, std::size_t bytes, std::size_t ahead) noexcept {
  constexpr std::size_t kLine = 64;
  const std::size_t part = bytes / streams;
  S::I sums[streams];
  fd::cpu::unroll<streams>([&](auto s)
                               __attribute__((always_inline)) { sums[s.value] = S::zero(); });
  for (std::size_t at = 0; at < part; at += kLine) {
    fd::cpu::unroll<streams>([&](auto s) __attribute__((always_inline)) {
      const std::byte* line = from + static_cast<std::size_t>(s.value) * part + at;
      if constexpr (prefetches) __builtin_prefetch(line + ahead);
      for (std::size_t i = 0; i < kLine; i += kVector) {
        sums[s.value] = S::add(sums[s.value], S::load(line + i));
      }
    });
  }
  S::I all = sums[0];
  fd::cpu::unroll<streams - 1>(
      [&](auto s) __attribute__((always_inline)) { all = S::add(all, sums[s.value + 1]); });
  std::int32_t lanes[S::kLanes];
  S::store(lanes, all);
  return lanes[0];
}

std::int32_t read(const std::byte* from, std::size_t bytes, int streams,
                  std::size_t ahead) noexcept {
  if (ahead == 0) {
    return streams == 1   ? read_streams<1, false>(from, bytes, 0)
           : streams == 2 ? read_streams<2, false>(from, bytes, 0)
                          : read_streams<4, false>(from, bytes, 0);
  }
  return streams == 1   ? read_streams<1, true>(from, bytes, ahead)
         : streams == 2 ? read_streams<2, true>(from, bytes, ahead)
                        : read_streams<4, true>(from, bytes, ahead);
}

std::int32_t dot(std::int64_t steps) noexcept {
  S::I sums[kChains];
  fd::cpu::unroll<kChains>([&](auto i)
                               __attribute__((always_inline)) { sums[i.value] = S::zero(); });
  const S::I weights = S::broadcast(0x03020105);
  S::I activations = S::broadcast(0x0107fd10);
  for (std::int64_t step = 0; step < steps; ++step) {
    fd::cpu::unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      // Another value for all that the compiler knows, so that it computes every product. Not from
      // memory: a load of a whole vector for each takes longer than the products on Intel.
      fd::cpu::in_this_order(activations);
      sums[i.value] = S::dot(sums[i.value], weights, activations);
      fd::cpu::in_this_order(sums[i.value]);  // in its register: no copies
    });
  }
  fd::cpu::unroll<kChains - 1>(
      [&](auto i) __attribute__((always_inline)) { sums[0] = S::add(sums[0], sums[i.value + 1]); });
  std::int32_t lanes[S::kLanes];
  S::store(lanes, sums[0]);
  return lanes[0];
}

float fma(std::int64_t steps) noexcept {
  S::F sums[kChains];
  fd::cpu::unroll<kChains>([&](auto i)
                               __attribute__((always_inline)) { sums[i.value] = S::zero_float(); });
  const S::F factor = S::broadcast(0.25f);
  S::F input = S::broadcast(0.5f);
  for (std::int64_t step = 0; step < steps; ++step) {
    fd::cpu::unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      fd::cpu::in_this_order(input);
      sums[i.value] = S::fma(factor, input, sums[i.value]);
    });
  }
  fd::cpu::unroll<kChains - 1>(
      [&](auto i) __attribute__((always_inline)) { sums[0] = S::add(sums[0], sums[i.value + 1]); });
  float lanes[S::kLanes];
  S::store(lanes, sums[0]);
  return lanes[0];
}

}  // namespace

const ProbeTable& FOREDRAFT_PROBES() noexcept {
  static constexpr ProbeTable table{&read, &dot, &fma, double{kChains} * S::kLanes * 4,
                                    double{kChains} * S::kLanes};
  return table;
}

}  // namespace bench
