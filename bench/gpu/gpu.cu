// What a pass costs on a GPU: one row against the bytes of its weights (G1), more rows against one
// (G2); what its operators cost by themselves, and whole rounds of decoding. Weights are random, in the
// shapes of real models: a time does not depend on them.
//
//   bench.gpu [MODEL ...] > result.json      models: see kModels; all without one

#include <foredraft/backend/cuda/cuda.cuh>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/load.hpp>
#include <nlohmann/json.hpp>

#include "../support/summary.hpp"
#include "operators.hpp"
#include "rounds.hpp"
#include "support/tiny_model.hpp"

namespace {

namespace fd = foredraft;
namespace cuda = foredraft::cuda;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Model = fd::Model<fd::Cuda>;
using Rows = fd::CudaRows<fd::f16>;
using Cache = fd::LinearCache<Rows>;

struct Shape {
  const char* name;
  double g1;  // the goal: bytes of weights at the speed of a copy, over the time of a pass
  TinyModel model;
};

TinyModel shaped(fd::TensorType type, int layers, int heads, int kv_heads, int d_head, int d_model,
                 int d_ff, int n_vocab, bool tied) {
  TinyModel model{.type = type};
  model.n_layers = layers;
  model.n_heads = heads;
  model.n_kv_heads = kv_heads;
  model.d_head = d_head;
  model.d_model = d_model;
  model.d_ff = d_ff;
  model.n_vocab = n_vocab;
  model.tied = tied;
  return model;
}

const Shape kModels[] = {
    {"0.6b-bf16", 0.50, shaped(fd::TensorType::kBF16, 28, 16, 8, 128, 1024, 3072, 151936, true)},
    {"1b-bf16", 0.65, shaped(fd::TensorType::kBF16, 16, 32, 8, 64, 2048, 8192, 128256, true)},
    {"8b-q4", 0.80, shaped(fd::TensorType::kQ4_0, 32, 32, 8, 128, 4096, 14336, 128256, false)},
    {"1b-q4_k", 0, shaped(fd::TensorType::kQ4_K, 16, 32, 8, 64, 2048, 8192, 128256, true)},
};
constexpr int kRows[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int kContext = 256;
constexpr int kTurns = 15;
constexpr int kTurnsOfRounds = 7;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Bytes that a copy on the GPU reads and writes in a second.
class Copy {
 public:
  double bytes_per_second() {
    const auto begin = Clock::now();
    constexpr int kTimes = 4;
    for (int i = 0; i < kTimes; ++i) {
      cuda::check(cudaMemcpyAsync(to_.data(), from_.data(), kBytes, cudaMemcpyDeviceToDevice),
                  "a copy");
    }
    cuda::check(cudaDeviceSynchronize(), "a copy");
    return 2.0 * kTimes * static_cast<double>(kBytes) / seconds_since(begin);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  cuda::DeviceMemory<cuda::GpuDevice, std::byte> from_{kBytes}, to_{kBytes};
};

/// Verifications of m rows behind kContext tokens.
class Passes {
 public:
  explicit Passes(Model& model) : model_(model), cache_(model.shape(), kContext + 64) {
    for (int done = 0; done < kContext; done += 64) {
      forward(64, fd::RowNeed::kNothing);
      std::vector<fd::NodeIndex> path;
      for (int i = 0; i < 64; ++i) path.push_back(i);
      cache_.commit(path);
    }
  }

  double seconds(int m) {
    const auto begin = Clock::now();
    forward(m, fd::RowNeed::kArgmax);
    const double seconds = seconds_since(begin);
    cache_.discard();
    return seconds;
  }

 private:
  void forward(int m, fd::RowNeed need) {
    std::vector<fd::Node> nodes;
    for (int i = 0; i < m; ++i) nodes.push_back({100 + i * 37 % 1000, i - 1});
    cache_.stage(nodes);
    fd::Request<Cache> request{&cache_, 0, m, {need, {}}, &scores_};
    model_.forward(std::span(&request, 1));
  }

  Model& model_;
  Cache cache_;
  fd::Scores scores_;
};

/// Bytes of the matrices that every pass reads, as they lie in the GPU's memory.
double weight_bytes(const fd::Gguf& file) {
  double bytes = 0;
  const bool own_head = file.find_tensor("output.weight") != nullptr;
  for (const auto& tensor : file.tensors()) {
    const fd::TensorView view = file.view(tensor);
    if (view.n_out <= 1 || (own_head && tensor.name == "token_embd.weight")) continue;
    bytes += cuda::bytes_of(view.type, view.n_out, view.n_in);
  }
  return bytes;
}

/// Seconds of a kernel that does nothing, of `n` that are asked for together.
double launch_seconds(int n) {
  cuda::GpuDevice& device = cuda::GpuDevice::current();
  const auto run = [&] {
    for (int i = 0; i < n; ++i) device.launch<cuda::detail::EmptyKernel>({}, 0, {});
    device.finish();
  };
  run();  // makes the graph, where there is one
  constexpr int kTimes = 20;
  const auto begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) run();
  return seconds_since(begin) / (kTimes * n);
}

/// Operators alone: bytes that each reads a second, against a copy of the same turn.
Json of_operators(fd::Cuda& backend, Copy& copy, const Shape& shape) {
  using Operators = bench::Operators<fd::Cuda, Rows>;
  Operators operators(backend, shape.model, kContext);
  const auto seconds_of = [](const auto& pass) {
    const auto begin = Clock::now();
    pass();
    return seconds_since(begin) / Operators::kTimes;
  };
  std::map<std::string, std::vector<double>> seconds, of_copy;
  std::map<std::string, double> bytes;
  for (int turn = 0; turn <= kTurns; ++turn) {  // the first one makes graphs
    const auto found = operators.measure(seconds_of);
    const double bandwidth = copy.bytes_per_second();
    if (turn == 0) continue;
    for (const auto& one : found) {
      bytes[one.name] = one.bytes;
      seconds[one.name].push_back(one.seconds);
      of_copy[one.name].push_back(one.bytes / bandwidth / one.seconds);
    }
  }
  Json result;
  for (const auto& [name, values] : seconds) {
    result[name] = {{"bytes", bytes[name]},
                    {"seconds", bench::summary(values)},
                    {"of_copy", bench::summary(of_copy[name])}};
    std::fprintf(stderr, "  %-16s %8.1f us, %.3f of a copy\n", name.c_str(),
                 1e6 * bench::median(values), bench::median(of_copy[name]));
  }
  return result;
}

Json of_rounds(Model& model) {
  bench::Rounds<Model, Cache> rounds(model, kContext);
  std::map<std::string, std::vector<double>> token, round, other;
  for (int turn = 0; turn <= kTurnsOfRounds; ++turn) {
    for (const auto& way : rounds.measure()) {
      if (turn == 0) continue;
      token[way.name].push_back(way.seconds_a_token);
      round[way.name].push_back(way.seconds_a_round);
      other[way.name].push_back(way.other_seconds_a_round);
    }
  }
  Json result;
  for (const auto& [name, values] : token) {
    result[name] = {{"seconds_a_token", bench::summary(values)},
                    {"seconds_a_round", bench::summary(round[name])},
                    {"other_seconds_a_round", bench::summary(other[name])}};
    std::fprintf(stderr, "  %s: %.1f us a token\n", name.c_str(), 1e6 * bench::median(values));
  }
  return result;
}

/// What bench/gpu.sh says of the build: a machine with a GPU may not have the repository.
std::string of_build() {
  const char* const commit = std::getenv("FOREDRAFT_COMMIT");
  return commit == nullptr ? "" : commit;
}
std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now))};
}

Json measure(fd::Cuda& backend, Copy& copy, const Shape& shape) {
  std::fprintf(stderr, "%s: making weights\n", shape.name);
  const std::vector<std::byte> bytes = shape.model.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const auto begin = Clock::now();
  Model model = fd::load(backend, file);
  const double load = seconds_since(begin);
  Passes passes(model);
  std::map<int, std::vector<double>> seconds;
  std::vector<double> of_copy, speed;
  const double read = weight_bytes(file);
  for (int turn = 0; turn <= kTurns; ++turn) {  // the first one warms up
    for (const int m : kRows) {
      const double one = passes.seconds(m);
      if (turn > 0) seconds[m].push_back(one);
    }
    const double bandwidth = copy.bytes_per_second();
    if (turn == 0) continue;
    speed.push_back(bandwidth);
    of_copy.push_back(read / bandwidth / seconds[1].back());
  }
  Json result{{"model", shape.name}, {"weight_bytes", read}, {"load_seconds", load}};
  result["copy_bytes_per_second"] = bench::summary(speed);
  result["G1"] = {{"goal", shape.g1}, {"of_copy", bench::summary(of_copy)}};
  for (const int m : kRows) {
    result["pass_seconds"][std::to_string(m)] = bench::summary(seconds[m]);
    if (m > 1)
      result["G2"][std::to_string(m)] = bench::summary(bench::ratios(seconds[m], seconds[1]));
    std::fprintf(stderr, "  %2d rows: %8.1f us, %.3f of one\n", m, 1e6 * bench::median(seconds[m]),
                 bench::median(bench::ratios(seconds[m], seconds[1])));
  }
  std::fprintf(stderr, "  weights at %.3f of a copy's %.0f GB/s (goal %.2f)\n",
               bench::median(of_copy), 1e-9 * bench::median(speed), shape.g1);
  result["operators"] = of_operators(backend, copy, shape);
  result["rounds"] = of_rounds(model);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fd::Cuda backend;
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, cuda::GpuDevice::current().ordinal()),
                "asking for the GPU's name");
    Json result{
        {"commit", of_build()},
        {"date", today()},
        {"device", properties.name},
        {"launch_seconds", {{"alone", launch_seconds(1)}, {"in_graphs", launch_seconds(300)}}}};
    Copy copy;
    const std::span<char*> wanted(argv + 1, argv + argc);
    for (const char* name : wanted) {
      if (std::none_of(std::begin(kModels), std::end(kModels),
                       [&](const Shape& shape) { return std::string(name) == shape.name; })) {
        std::fprintf(stderr, "no model %s; there are", name);
        for (const Shape& shape : kModels) std::fprintf(stderr, " %s", shape.name);
        std::fprintf(stderr, "\n");
        return 2;
      }
    }
    for (const Shape& shape : kModels) {
      const bool asked = std::any_of(wanted.begin(), wanted.end(), [&](const char* name) {
        return std::string(name) == shape.name;
      });
      if (wanted.empty() || asked) result["models"].push_back(measure(backend, copy, shape));
    }
    result["graphs"] = cuda::GpuDevice::current().graphs();  // 0: kernels were started one by one
    std::cout << result.dump(1) << '\n';
  } catch (const fd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
