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
#include <foredraft/model/load.hpp>

#include "../support/program.hpp"
#include "model_path.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Tokens = std::vector<fd::TokenId>;

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

/// -log p(token) under the softmax of a row.
double loss(std::span<const float> logits, fd::TokenId token) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
  return std::log(sum) + greatest - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

/// Losses of every token but the first of each window.
template <typename Cache, typename B>
std::vector<double> losses(fd::Model<B>& model, const Tokens& tokens, int window,
                           const char* name) {
  constexpr int kBlock = 64;  // rows whose logits are held at once
  std::vector<double> result;
  const auto& vocabulary = model.tokenizer().vocabulary();
  Cache cache(model.shape(), window + 1, kBlock);
  fd::Scores scores;
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(window)) {
    Tokens text;
    if (vocabulary.adds_bos()) text.push_back(vocabulary.bos().value());
    const std::size_t first = text.size();
    const std::size_t end = std::min(tokens.size(), begin + static_cast<std::size_t>(window));
    text.insert(text.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
    cache.truncate(0);
    while (cache.size() + 1 < static_cast<int>(text.size())) {
      const int at = cache.size();
      const int count = std::min(kBlock, static_cast<int>(text.size()) - 1 - at);
      std::vector<fd::Node> nodes;
      std::vector<fd::NodeIndex> path;
      for (int i = 0; i < count; ++i) {
        nodes.push_back({text[static_cast<std::size_t>(at + i)], i - 1});
        path.push_back(i);
      }
      cache.stage(nodes);
      fd::Request<Cache> request{&cache, 0, count, {fd::RowNeed::kLogits, {}}, &scores};
      model.forward(std::span(&request, 1));
      cache.commit(path);
      for (int i = 0; i < count; ++i) {
        const auto next = static_cast<std::size_t>(at + i + 1);
        if (next > first) result.push_back(loss(std::as_const(scores).logits(i), text[next]));
      }
    }
    std::fprintf(stderr, "\r%s: %zu of %zu tokens", name, end, tokens.size());
  }
  std::fprintf(stderr, "\n");
  return result;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Perplexities of two backends on the same tokens: all that the second one has seen.
Json compare(const std::vector<double>& ours, const std::vector<double>& exact) {
  std::vector<double> difference;
  for (std::size_t i = 0; i < exact.size(); ++i) difference.push_back(ours[i] - exact[i]);
  const double shift = mean(difference);
  double squares = 0;
  for (const double d : difference) squares += (d - shift) * (d - shift);
  const auto n = static_cast<double>(difference.size());
  const std::vector<double> same(ours.begin(), ours.begin() + std::ssize(exact));
  return {{"predicted_tokens", exact.size()},
          {"perplexity", std::exp(mean(same))},
          {"exact_perplexity", std::exp(mean(exact))},
          {"difference_percent", 100 * (std::exp(shift) - 1)},
          {"standard_error_percent", 100 * std::sqrt(squares / (n - 1) / n)}};
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
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(a.tokens)));
    out["tokens"] = tokens.size();
    ours = losses<fd::LinearCache<fd::f16>>(model, tokens, a.window, "cpu");
    if (model.shape().layers.front().d_head % fd::cpu::kHeadMultiple<fd::q8_0> == 0) {
      const auto small = losses<fd::LinearCache<fd::q8_0>>(model, tokens, a.window, "q8_0 cache");
      out["q8_0_cache"] = compare(small, ours);  // "exact" is the f16 cache here
    }
  }
  {
    FloatCpu float_cpu(cpu);
    fd::Model model = fd::load(float_cpu, path);
    floats = losses<fd::LinearCache<float>>(model, tokens, a.window, "float");
    out["float_activations"] = compare(ours, floats);
  }
  if (a.reference > 0) {
    // Slow: on the first tokens only, which are the first of the other backends too.
    fd::Reference reference;
    fd::Model model = fd::load(reference, path);
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(a.reference)));
    const auto exact = losses<fd::LinearCache<float>>(model, tokens, a.window, "reference");
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
