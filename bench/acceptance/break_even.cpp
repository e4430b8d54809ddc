// Which acceptance makes drafting pay: tokens/s with drafts of depth n that are accepted with a
// given rate, against plain decoding, as a table of ratios.
//
// The rate is set by SyntheticAcceptance; draft model, verification and commit do their real work.
// Rounds with and without drafts run in turns, and the ratio is taken turn by turn.

#include <foredraft/models.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "../support/program.hpp"
#include "model_path.hpp"
#include "synthetic_acceptance.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
using Tokens = std::vector<fd::TokenId>;

struct Arguments {
  std::string target = "qwen2.5-coder-1.5b";
  std::string draft = "qwen2.5-coder-0.5b";
  std::vector<int> depths{1, 2, 4, 8};
  std::vector<double> rates{0.5, 0.6, 0.7, 0.8, 0.9};
  int n_tokens = 64;
  int repetitions = 5;
  int threads = 0;
};

constexpr int kContext = 2048;

/// Tokens per second of one text. The prompt is not timed.
template <typename D, typename A>
double speed(Model& target, D drafter, A rule, const Tokens& prompt, const fd::Options& options) {
  fd::Decoder decoder{target, Cache{target.shape(), kContext}, std::move(drafter), std::move(rule)};
  decoder.prefill(prompt, options);
  return decoder.resume(options).stats.tokens_per_second();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// The rate at which the ratio reaches 1, between the rates that were measured.
std::string break_even(const std::vector<double>& rates, const std::vector<double>& ratios) {
  if (ratios.front() >= 1) return "below";
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (ratios[i] < 1) continue;
    const double part = (1 - ratios[i - 1]) / (ratios[i] - ratios[i - 1]);
    char text[16];
    std::snprintf(text, sizeof text, "%.2f", rates[i - 1] + part * (rates[i] - rates[i - 1]));
    return text;
  }
  return "above";
}

int run(Arguments a) {
  std::sort(a.rates.begin(), a.rates.end());
  fd::Cpu cpu{{.threads = a.threads}};
  Model target = fd::load(cpu, cli::find_model(a.target));
  Model draft = fd::load(cpu, cli::find_model(a.draft));
  const Tokens prompt = target.tokenizer().encode("def merge(left, right):\n");

  std::printf("tokens/s with drafts / without\n\n| depth |");
  for (const double rate : a.rates) std::printf(" rate %.2f |", rate);
  std::printf(" break-even |\n|");
  for (std::size_t i = 0; i < a.rates.size() + 2; ++i) std::printf("---:|");
  std::printf("\n");
  std::vector<double> plain_speeds;
  for (const int depth : a.depths) {
    std::vector<double> medians;
    for (const double rate : a.rates) {
      std::vector<double> ratios;
      for (int i = 0; i <= a.repetitions; ++i) {  // the first one warms up
        fd::Options options{.max_tokens = a.n_tokens,
                            .n_draft = depth,
                            .seed = static_cast<std::uint64_t>(i),
                            .ignore_end = true};
        const bench::SyntheticAcceptance synthetic{{rate}};
        const double with =
            speed(target, fd::ModelDrafter{draft, {}, kContext}, synthetic, prompt, options);
        options.n_draft = 0;
        const double without = speed(target, fd::NoDraft{}, fd::Greedy{}, prompt, options);
        if (i == 0) continue;
        ratios.push_back(with / without);
        plain_speeds.push_back(without);
      }
      medians.push_back(median(ratios));
    }
    std::printf("| %d |", depth);
    for (const double ratio : medians) std::printf(" %.2f |", ratio);
    std::printf(" %s |\n", break_even(a.rates, medians).c_str());
    std::fflush(stdout);
  }
  std::printf("\nplain decoding: %.1f tokens/s, %d threads, %s\n", median(plain_speeds),
              cpu.threads(), std::string(fd::cpu::name_of(cpu.isa())).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("What acceptance makes drafting pay, for a target and a draft model.");
  app.add_option("-m,--model", a.target, "target: a file, or a name")->capture_default_str();
  app.add_option("--draft", a.draft, "draft model")->capture_default_str();
  app.add_option("--depth", a.depths, "drafted tokens a round")
      ->delimiter(',')
      ->check(CLI::Range(1, 63))
      ->capture_default_str();
  app.add_option("--rate", a.rates, "acceptance of a draft whose predecessors were accepted")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("-n", a.n_tokens, "tokens of each text")
      ->check(CLI::Range(1, kContext / 2))
      ->capture_default_str();
  app.add_option("-r", a.repetitions, "repetitions")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants")
      ->capture_default_str();
  return bench::run_program(app, argc, argv, [&] { return run(std::move(a)); });
}
