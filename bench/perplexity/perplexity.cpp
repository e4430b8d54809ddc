// What rounding activations to int8 costs in quality: the perplexity of a model on a fixed text
// with the backend as it is shipped, and with the same weights and activations that stay floats.
//
//   bench.perplexity -m qwen2.5-coder-0.5b -f bench/data/text.txt
//
// The text is cut into windows; each begins with an empty cache (and BOS, where the model wants
// one), and every token but a window's first is predicted. Both backends see the same tokens, so
// the difference has far less noise than either value. The result is one JSON object.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/model/load.hpp>

#include "../support/program.hpp"
#include "losses.hpp"
#include "model_path.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Tokens = std::vector<fd::TokenId>;
using bench::compare;
using bench::losses;

/// The kernels of Cpu with the file's values as float weights: no activation is ever rounded.
class FloatCpu : public fd::HostMemory {
 public:
  using Matrix = fd::Cpu::Matrix;
  using Worker = fd::Cpu::Worker;

  explicit FloatCpu(fd::Cpu& cpu) : cpu_(cpu) {}

  Matrix pack(const fd::TensorView& weights) {
    const std::vector<float> values = fd::dequantized(weights);
    return cpu_.pack({fd::TensorType::kF32, weights.n_out, weights.n_in,
                      std::as_bytes(std::span<const float>(values))});
  }
  Vector vector(const fd::TensorView& weights) { return cpu_.vector(weights); }
  template <typename Body>
  void run(const fd::PassShape& shape, Body&& body) {
    cpu_.run(shape, std::forward<Body>(body));
  }

 private:
  fd::Cpu& cpu_;
};
static_assert(fd::Backend<FloatCpu>);

template <typename Cache, typename B>
Cache cache_for(const fd::Model<B>& model, int window) {
  return Cache(model.shape(), window + 1, bench::kLossBlock);
}

struct Arguments {
  std::string model;
  std::string text;
  int tokens = 8192;
  int window = 1024;
  int reference = 0;
  int threads = 0;
};

int run(const Arguments& a) {
  std::ifstream in(a.text, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) throw fd::Error(fd::ErrorCode::kIo, "no text in " + a.text, "a file with text");
  fd::Cpu cpu{{.threads = a.threads}};
  const auto path = cli::find_model(a.model);
  Tokens tokens;
  Json out{{"model", path.stem().string()},
           {"isa", fd::cpu::name_of(cpu.isa())},
           {"threads", cpu.threads()},
           {"text", std::filesystem::path(a.text).filename().string()},
           {"window", a.window}};
  std::vector<double> ours;
  std::vector<double> floats;
  {
    fd::Model model = fd::load(cpu, path);
    tokens = model.tokenizer().encode(text);
    tokens.resize(std::min(tokens.size(), fd::idx(a.tokens)));
    out["tokens"] = tokens.size();
    ours = losses(model, cache_for<fd::LinearCache<fd::f16>>(model, a.window), tokens, a.window,
                  "cpu");
    if (model.shape().layers.front().d_head % fd::cpu::kHeadMultiple<fd::q8_0> == 0) {
      const auto small = losses(model, cache_for<fd::LinearCache<fd::q8_0>>(model, a.window),
                                tokens, a.window, "q8_0 cache");
      out["q8_0_cache"] = compare(small, ours);  // "exact" is the f16 cache here
    }
  }
  {
    FloatCpu float_cpu(cpu);
    fd::Model model = fd::load(float_cpu, path);
    floats = losses(model, cache_for<fd::LinearCache<float>>(model, a.window), tokens, a.window,
                    "float");
    out["float_activations"] = compare(ours, floats);
  }
  if (a.reference > 0) {
    // Slow: on the first tokens only, which are the first of the other backends too.
    fd::Reference reference;
    fd::Model model = fd::load(reference, path);
    tokens.resize(std::min(tokens.size(), fd::idx(a.reference)));
    const auto exact = losses(model, cache_for<fd::LinearCache<float>>(model, a.window), tokens,
                              a.window, "reference");
    out["reference_backend"] = {{"cpu", compare(ours, exact)},
                                {"float_activations", compare(floats, exact)}};
  }
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Perplexity with int8 and with float activations, as JSON.");
  app.add_option("-m,--model", a.model, "a file, or a name")->required();
  app.add_option("-f,--text", a.text, "a text file")->required();
  app.add_option("-n,--tokens", a.tokens, "tokens of the text at most")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--window", a.window, "tokens of a window")
      ->check(CLI::Range(16, 32768))
      ->capture_default_str();
  app.add_option("--reference", a.reference, "tokens for the reference backend too; 0: none")
      ->check(CLI::Range(0, 1 << 24));
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(a); });
}
