// Speed of the packed matrix product on one thread: GMAC/s and bytes of weights per second, for
// every format and number of rows M, with the weights streamed from memory and with weights that
// stay in the second level cache.
//
//   g++ -std=c++20 -O3 -march=native -Iinclude bench/micro/matmul.cpp -lbenchmark -lpthread -o
//   matmul taskset -c 1 ./matmul --benchmark_filter='memory/.*/Q4_K' --benchmark_repetitions=5
//
// `stream` reads memory with the same vectors and nothing else: the limit of the memory rows.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <foredraft/backend/cpu/matmul.hpp>
#include <foredraft/backend/cpu/packed_matrix.hpp>

namespace fd = foredraft;
using Arch = fd::cpu::NativeArch;

namespace {

/// Random bytes are valid blocks of every format; only the scales must be kept finite.
std::vector<std::byte> random_rows(fd::TensorType type, std::size_t n_out, std::size_t n_in) {
  std::vector<std::byte> bytes(n_out * *fd::row_bytes(type, n_in));
  std::mt19937_64 random(n_out * 31 + n_in);
  for (auto& byte : bytes) byte = std::byte(random());
  const auto layout = *fd::layout_of(type);
  const std::uint16_t scale = fd::float_to_half(0.01f);
  for (std::size_t i = 0; i < bytes.size(); i += layout.bytes) {
    const std::size_t d = type == fd::TensorType::kQ6_K ? 208 : 0;
    if (layout.elements == 1) {
      const float value = static_cast<float>(static_cast<int>(random() % 255) - 127);
      const std::uint16_t half = fd::float_to_half(value);
      if (layout.bytes == 4) {
        std::memcpy(&bytes[i], &value, 4);
      } else {
        std::memcpy(&bytes[i], &half, 2);
      }
      continue;
    }
    std::memcpy(&bytes[i + d], &scale, 2);
    if (fd::cpu::has_min(type)) std::memcpy(&bytes[i + 2], &scale, 2);
  }
  return bytes;
}

/// As many copies of one random matrix as fill `bytes`.
std::vector<fd::cpu::PackedMatrix> matrices(fd::TensorType type, std::size_t n_out,
                                            std::size_t n_in, std::size_t bytes) {
  const auto rows = random_rows(type, n_out, n_in);
  std::vector<fd::cpu::PackedMatrix> result;
  do {
    result.push_back(fd::cpu::PackedMatrix::allocate(type, n_out, n_in));
    result.back().pack_panels({type, n_out, n_in, rows}, 0, result.back().n_panels());
  } while (result.size() * result.back().bytes() < bytes);
  return result;
}

void run(benchmark::State& state, fd::TensorType type, std::size_t n_out, std::size_t n_in,
         std::size_t set_bytes) {
  const int n_rows = static_cast<int>(state.range(0));
  const auto weights = matrices(type, n_out, n_in, set_bytes);
  const auto format = fd::cpu::activation_format(type);
  // 64-byte aligned memory without another allocator: a few floats are skipped.
  std::vector<float> memory(
      fd::cpu::activation_bytes(format, n_in) * static_cast<std::size_t>(n_rows) / 4 + 32);
  auto* aligned = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) & ~std::uintptr_t{63});
  const fd::cpu::Activations activations{format, n_rows, static_cast<int>(n_in), aligned};
  std::vector<float> row(n_in);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int m = 0; m < n_rows; ++m) {
    for (auto& x : row) x = normal(random);
    fd::cpu::quantize_row<Arch>(row.data(), activations, m);
  }
  std::vector<float> out(static_cast<std::size_t>(n_rows) * n_out);
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& w = weights[next];
    next = next + 1 == weights.size() ? 0 : next + 1;
    fd::cpu::matmul<Arch>(w.panels(), activations, 0, w.n_panels(), out.data(), n_out);
    benchmark::ClobberMemory();
  }
  const double calls = static_cast<double>(state.iterations());
  const double macs = static_cast<double>(n_out) * static_cast<double>(n_in) * n_rows;
  state.counters["GMAC/s"] = benchmark::Counter(calls * macs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(
      calls * static_cast<double>(weights[0].bytes()) * 1e-9, benchmark::Counter::kIsRate);
}

void stream(benchmark::State& state) {
  const auto weights = matrices(fd::TensorType::kQ4_K, 8960, 1536, std::size_t{256} << 20);
  using S = fd::cpu::Simd<Arch>;
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& w = weights[next];
    next = next + 1 == weights.size() ? 0 : next + 1;
    const std::byte* p = w.panels().data;
    auto a = S::zero();
    auto b = S::zero();
    for (std::size_t i = 0; i + 128 <= w.bytes(); i += 128) {
      fd::cpu::prefetch(p + i, 8192);
      fd::cpu::prefetch(p + i + 64, 8192);
      a = S::add(a, S::load(p + i));
      b = S::add(b, S::load(p + i + 64));
    }
    std::int32_t lanes[S::kLanes];
    S::store(lanes, S::add(a, b));
    benchmark::DoNotOptimize(lanes);
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(weights[0].bytes()) * 1e-9,
      benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  const fd::TensorType types[] = {
      fd::TensorType::kQ4_K, fd::TensorType::kQ5_K, fd::TensorType::kQ6_K, fd::TensorType::kQ4_0,
      fd::TensorType::kQ4_1, fd::TensorType::kQ5_0, fd::TensorType::kQ5_1, fd::TensorType::kQ8_0,
      fd::TensorType::kF16,  fd::TensorType::kBF16, fd::TensorType::kF32};
  benchmark::RegisterBenchmark("stream", stream)->UseRealTime();
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
      auto* bench = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        run(state, type, c.n_out, c.n_in, c.bytes);
      });
      bench->UseRealTime();
      for (const int n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 512}) bench->Arg(n_rows);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
