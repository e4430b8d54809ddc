// Speed of the packed matrix product on one thread: GMAC/s and bytes of weights per second, for
// every format and number of rows M, with the weights streamed from memory and with weights that
// stay in the second level cache.
//
//   bench.matmul --benchmark_filter='memory/.*/Q4_K|peak' --benchmark_repetitions=5 [--isa=avx2]
//
// `of_stream` is relative to a plain read of memory, `of_peak` to the int8 dot product (for float
// weights: the float multiply-add) that does nothing else.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include <foredraft/core/index.hpp>

#include "machine.hpp"

namespace {

namespace fd = foredraft;
using bench::Machine;

/// Weights are kept for the next benchmark, which most often asks for the same.
const std::vector<fd::cpu::PackedMatrix>& weights_for(fd::TensorType type, std::size_t n_out,
                                                      std::size_t n_in, std::size_t bytes) {
  static std::vector<fd::cpu::PackedMatrix> kept;
  static std::size_t kept_bytes = 0;
  if (kept.empty() || kept[0].type() != type || kept_bytes != bytes ||
      kept[0].n_out() != static_cast<int>(n_out) || kept[0].n_in() != static_cast<int>(n_in)) {
    kept.clear();
    kept = bench::random_matrices(type, n_out, n_in, bytes);
    kept_bytes = bytes;
  }
  return kept;
}

void run(benchmark::State& state, fd::TensorType type, std::size_t n_out, std::size_t n_in,
         std::size_t set_bytes) {
  const auto& kernels = Machine::get().kernels;
  const int n_rows = static_cast<int>(state.range(0));
  const auto& weights = weights_for(type, n_out, n_in, set_bytes);
  const bench::RandomActivations activations(kernels, type, n_rows, n_in);
  std::vector<float> out(fd::idx(n_rows) * n_out);
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& w = weights[next];
    next = next + 1 == weights.size() ? 0 : next + 1;
    kernels.matmul(w.panels(), activations.view(), 0, w.n_panels(), out.data(), n_out, {});
    benchmark::ClobberMemory();
  }
  const bool floats = fd::cpu::activation_format(type) == fd::cpu::ActivationFormat::kF32;
  bench::count_macs(state, static_cast<double>(n_out) * static_cast<double>(n_in) * n_rows,
                    floats ? Machine::get().fma : Machine::get().dot);
  bench::count_bytes(state, static_cast<double>(weights[0].bytes()), set_bytes > 0);
}

void register_all() {
  const fd::TensorType types[] = {
      fd::TensorType::kQ4_K, fd::TensorType::kQ5_K, fd::TensorType::kQ6_K, fd::TensorType::kQ4_0,
      fd::TensorType::kQ4_1, fd::TensorType::kQ5_0, fd::TensorType::kQ5_1, fd::TensorType::kQ8_0,
      fd::TensorType::kF16,  fd::TensorType::kBF16, fd::TensorType::kF32};
  const struct {
    const char* name;
    std::size_t n_out, n_in, bytes;
  } cases[] = {
      {"memory/8960x1536", 8960, 1536, std::size_t{192} << 20},
      {"memory/1536x8960", 1536, 8960, std::size_t{192} << 20},
      {"cache/256x1536", 256, 1536, 0},
  };
  for (const auto& c : cases) {
    for (const fd::TensorType type : types) {
      const std::string name = std::string(c.name) + "/" + std::string(fd::layout_of(type)->name);
      auto* one = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        run(state, type, c.n_out, c.n_in, c.bytes);
      });
      one->UseRealTime();
      for (const int n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 512}) one->Arg(n_rows);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benchmarks(argc, argv, register_all); }
