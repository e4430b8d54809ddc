#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/version.hpp>

#include "arguments.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "engine.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  std::string prompts = "1,2,4,8,16,512";
  std::string generations = "64";
  MachineArguments machine;
  int repetitions = 5;
  std::string format = "md";
};

/// "1,2,8-32*2": values and ranges first-last, first-last+step, first-last*factor.
std::vector<int> parse_sizes(const std::string& option, const std::string& text) {
  const auto refuse = [&] {
    throw UsageError(option + " " + text, "sizes from 0 to 1000000 as in 1,2,8-16+4,32-512*2",
                     "0 leaves the test out");
  };
  constexpr int kMost = 1000000;
  std::vector<int> sizes;
  std::size_t at = 0;
  const auto number = [&] {
    std::size_t length = 0;
    int value = 0;
    while (at + length < text.size() && length < 7 && text[at + length] >= '0' &&
           text[at + length] <= '9') {
      value = 10 * value + (text[at + length++] - '0');
    }
    if (length == 0 || value > kMost) refuse();
    at += length;
    return value;
  };
  const auto take = [&](char c) { return at < text.size() && text[at] == c && ++at > 0; };
  do {
    const int first = number();
    const int last = take('-') ? number() : first;
    const bool multiplies = take('*');
    const int step = multiplies || take('+') ? number() : 1;
    if (last < first || step < (multiplies ? 2 : 1) || (multiplies && first == 0)) refuse();
    for (std::int64_t size = first; size <= last; size = multiplies ? size * step : size + step) {
      if (size > 0) sizes.push_back(static_cast<int>(size));
      if (sizes.size() > 1000) refuse();
    }
  } while (take(','));
  if (at != text.size()) refuse();
  return sizes;
}

/// Tokens that look like no text in particular, the same in every run.
std::vector<fd::TokenId> some_tokens(int count, int n_vocab) {
  std::vector<fd::TokenId> tokens;
  std::uint64_t state = 1;
  for (int i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
    tokens.push_back(static_cast<fd::TokenId>((state >> 33) % static_cast<unsigned>(n_vocab)));
  }
  return tokens;
}

double measure(Engine& engine, const BenchTest& test) {
  const auto tokens = some_tokens(test.decodes ? 1 : test.n, engine.config().n_vocab);
  const double seconds =
      test.decodes ? engine.time_of_decoding(tokens[0], test.n) : engine.time_of_pass(tokens);
  return test.n / std::max(seconds, 1e-9);
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return visible(line.substr(colon + 2));
    }
  }
  return "unknown";
}

void check_longest(int longest, int trained) {
  if (longest <= trained) return;
  throw fd::Error(fd::ErrorCode::kContextOverflow,
                  "a test of " + std::to_string(longest) + " tokens",
                  "at most the " + std::to_string(trained) + " of the model's context",
                  "give smaller sizes with -p and -n");
}

int run(const Arguments& a) {
  std::vector<BenchTest> tests;
  for (const int n : parse_sizes("-p", a.prompts)) tests.push_back({false, n, {}});
  for (const int n : parse_sizes("-n", a.generations)) tests.push_back({true, n, {}});
  if (tests.empty()) throw UsageError("no test", "sizes above 0", "give them with -p or -n");
  const auto isa = a.machine.isa();
  const auto path = find_model(a.model);
  int longest = 0;
  for (const BenchTest& test : tests) longest = std::max(longest, test.n);

  Engine engine({.model = path,
                 .threads = a.machine.threads,
                 .isa = isa,
                 .n_ctx = longest,
                 .check = [&](const fd::ModelConfig& c) { check_longest(longest, c.n_ctx); },
                 .packed_cache = a.machine.packed_cache});
  {
    // Round 0 warms up caches and buffers. Tests take turns, so that a slow minute of the machine
    // hits all of them and not one.
    ProgressBar bar("measuring");
    const std::size_t steps = tests.size() * static_cast<std::size_t>(a.repetitions + 1);
    std::size_t done = 0;
    for (int round = 0; round <= a.repetitions; ++round) {
      for (BenchTest& test : tests) {
        bar.show(done++, steps);
        const double rate = measure(engine, test);
        if (round > 0) test.rates.push_back(rate);
      }
    }
  }
  const BenchMachine machine{
      processor_name(), static_cast<int>(std::thread::hardware_concurrency()), engine.threads(),
      std::string(engine.isa()),
      std::to_string(FOREDRAFT_VERSION_MAJOR) + "." + std::to_string(FOREDRAFT_VERSION_MINOR) +
          "." + std::to_string(FOREDRAFT_VERSION_PATCH)};
  const BenchModel model{path.stem().string(), std::filesystem::file_size(path),
                         engine.config().family};
  if (a.format == "json") {
    print_json(bench_json(machine, model, tests));
  } else {
    write_out(a.format == "csv" ? bench_csv(machine, model, tests)
                                : bench_table(machine, model, tests));
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measure forward passes and plain decoding. ppM: M tokens into an empty cache, in passes of "
      "at most 512; up to M = 64 the best token of every row is computed, as a verification needs "
      "it, beyond that of the last row only, as a prompt needs it. tgN: N tokens one by one, "
      "greedily, from one token. Tokenization and sampling are left out; every test runs once "
      "before it is measured, and repetitions take turns.");
  const auto a = std::make_shared<Arguments>();
  add_model_option(*command, a->model);
  command
      ->add_option("-p,--n-prompt", a->prompts,
                   "sizes of forward passes, as in 1,2,8-16+4,32-512*2 [" + a->prompts + "]")
      ->type_name("LIST");
  command
      ->add_option("-n,--n-gen", a->generations,
                   "tokens to decode, in the same form [" + a->generations + "]")
      ->type_name("LIST");
  limit(command->add_option("-r,--repetitions", a->repetitions, "measurements of each test [5]"), 1,
        1000)
      ->type_name("N");
  limit(command->add_option("-o,--output", a->format, "md, csv or json [md]"),
        {"md", "csv", "json"})
      ->type_name("FORMAT");
  a->machine.add_to(*command);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
