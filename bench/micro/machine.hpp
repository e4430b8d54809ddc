#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>

#include "../support/random_weights.hpp"
#include "peaks.hpp"

namespace bench {

/// One thread of this machine, the kernels it runs, and what it can do at most.
class Machine {
 public:
  /// Takes --isa=NAME out of the arguments; the widest set that the machine runs without it.
  static void set_up(int& argc, char** argv) {
    std::optional<fd::cpu::Isa> wanted;
    int kept = 0;
    for (int i = 0; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (!argument.starts_with("--isa=")) {
        argv[kept++] = argv[i];
        continue;
      }
      for (const fd::cpu::Isa isa : fd::cpu::executable_isas()) {
        if (argument.substr(6) == fd::cpu::name_of(isa)) wanted = isa;
      }
      if (!wanted) {
        std::cerr << "error: this machine does not run " << argument.substr(6) << '\n';
        std::exit(2);
      }
    }
    argc = kept;
    static Machine machine(wanted);
    instance_ = &machine;
    benchmark::AddCustomContext("isa", std::string(fd::cpu::name_of(machine.cpu.isa())));
  }
  static Machine& get() { return *instance_; }

  fd::Cpu cpu;
  const fd::cpu::KernelTable& kernels;
  // Measured at the start; the benchmarks named `peak` measure them again.
  double stream;  ///< @units bytes a second
  double dot;     ///< @units int8 products a second
  double fma;     ///< @units float multiply-adds a second

 private:
  explicit Machine(std::optional<fd::cpu::Isa> isa)
      : cpu({.threads = 1, .isa = isa}), kernels(kernels_of(cpu.isa())) {
    StreamRead read(cpu);
    std::vector<double> rates;
    for (int i = 0; i < 9; ++i) rates.push_back(read.bytes_per_second());
    std::nth_element(rates.begin(), rates.begin() + 4, rates.end());
    stream = rates[4];
    dot = dot_peak(cpu);
    fma = fma_peak(cpu);
  }

  static inline Machine* instance_ = nullptr;
};

/// Counters of a benchmark: work of one iteration.
inline void count_bytes(benchmark::State& state, double bytes, bool from_memory = true) {
  using benchmark::Counter;
  const double all = bytes * static_cast<double>(state.iterations());
  state.counters["GB/s"] = Counter(all * 1e-9, Counter::kIsRate);
  if (from_memory) {
    state.counters["of_stream"] = Counter(all / Machine::get().stream, Counter::kIsRate);
  }
}
/// @param peak  products a second: Machine::dot or Machine::fma
inline void count_macs(benchmark::State& state, double macs, double peak) {
  using benchmark::Counter;
  const double all = macs * static_cast<double>(state.iterations());
  state.counters["GMAC/s"] = Counter(all * 1e-9, Counter::kIsRate);
  state.counters["of_peak"] = Counter(all / peak, Counter::kIsRate);
}

/// peak/...: the limits of the rows that follow, with one thread and with all.
inline void register_peaks() {
  const auto add = [](const std::string& name, auto measure) {
    for (const int threads : {1, 0}) {
      const std::string title = "peak/" + name + (threads == 1 ? "/1_thread" : "/all_threads");
      benchmark::RegisterBenchmark(title.c_str(), [=](benchmark::State& state) {
        fd::Cpu cpu({.threads = threads, .isa = Machine::get().cpu.isa()});
        measure(state, cpu);
        state.counters["threads"] = cpu.threads();
      })->UseRealTime();
    }
  };
  const auto average = [](benchmark::State& state, const char* unit, auto rate) {
    std::vector<double> rates;
    for (auto _ : state) rates.push_back(rate() * 1e-9);
    const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    state.counters[unit] = *middle;
  };
  add("stream_read", [=](benchmark::State& state, fd::Cpu& cpu) {
    StreamRead read(cpu);
    average(state, "GB/s", [&] { return read.bytes_per_second(); });
  });
  add("dot_int8", [=](benchmark::State& state, fd::Cpu& cpu) {
    average(state, "GMAC/s", [&] { return dot_peak(cpu); });
  });
  add("fma_f32", [=](benchmark::State& state, fd::Cpu& cpu) {
    average(state, "GMAC/s", [&] { return fma_peak(cpu); });
  });
}

/// Google Benchmark's main with the peaks before everything else.
template <typename Register>
int run_benchmarks(int argc, char** argv, Register&& register_all) {
  Machine::set_up(argc, argv);
  register_peaks();
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace bench
