#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

#include "arguments.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "model_path.hpp"
#include "models.hpp"
#include "output.hpp"
#include "passes.hpp"
#include "processor.hpp"
#include "target.hpp"
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
    // As many digits as kMost has, so that value does not overflow. One more is refused as what
    // stands behind the number.
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
    // Times 1, or from 0, a product would never come to its end.
    if (last < first || step < (multiplies ? 2 : 1) || (multiplies && first == 0)) refuse();
    for (std::int64_t size = first; size <= last; size = multiplies ? size * step : size + step) {
      if (size > 0) sizes.push_back(static_cast<int>(size));
      if (sizes.size() > 1000) refuse();
    }
  } while (take(','));
  if (at != text.size()) refuse();
  return sizes;
}

void check_longest(int longest, int trained) {
  if (longest <= trained) return;
  throw fd::Error(fd::ErrorCode::kContextOverflow,
                  "a test of " + std::to_string(longest) + " tokens",
                  "at most the " + std::to_string(trained) + " of the model's context",
                  "give smaller sizes with -p and -n");
}

constexpr std::size_t kBlock = 512;  // tokens in one pass, as a prompt is read

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

/// The best token of a row. @errors kInvalidLogits
fd::TokenId valid_best(const fd::Scores& scores, int row) {
  const fd::TokenId best = scores.argmax(row);
  if (best >= 0) return best;
  throw fd::Error(fd::ErrorCode::kInvalidLogits, "a row of logits with NaN or no finite value",
                  "finite logits, -inf for impossible tokens",
                  "the model is damaged, or was converted wrongly");
}

/// ppN: up to 64 tokens every row's best token is computed, as in a verification; beyond that only
/// the last row's, as in a prompt.
void read(Passes& passes, std::span<const fd::TokenId> tokens) {
  const bool verification = tokens.size() <= fd::DraftTree::kMaxNodes;
  fd::Scores scores;
  while (!tokens.empty()) {
    const auto block = tokens.first(std::min(tokens.size(), kBlock));
    tokens = tokens.subspan(block.size());
    const std::size_t n_read = verification ? block.size() : tokens.empty() ? 1 : 0;
    passes.forward(block, n_read, fd::RowNeed::kArgmax, scores);
    for (std::size_t row = 0; row < n_read; ++row) valid_best(scores, static_cast<int>(row));
  }
}

/// tgN: one by one, each the best behind the one before.
void decode(Passes& passes, fd::TokenId token, int n) {
  fd::Scores scores;
  for (int i = 0; i < n; ++i) {
    passes.forward(std::span(&token, 1), 1, fd::RowNeed::kArgmax, scores);
    token = valid_best(scores, 0);
  }
}

/// Run a test once. @units tokens a second
double rate_of(const BenchTest& test, Passes& passes, int n_vocab) {
  const auto tokens = some_tokens(test.decodes ? 1 : test.n, n_vocab);
  passes.clear();
  const auto begin = std::chrono::steady_clock::now();
  if (test.decodes) {
    decode(passes, tokens[0], test.n);
  } else {
    read(passes, tokens);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return test.n / std::max(seconds.count(), 1e-9);
}

/// Round 0 warms up buffers and the memory of the one cache: what is timed is a pass of a program
/// that has run for a while, not how the system clears pages. Tests take turns, so that a slow
/// minute of the machine hits all of them and not one.
void measure(std::vector<BenchTest>& tests, int repetitions, Passes& passes, int n_vocab) {
  ProgressBar bar("measuring");
  const std::size_t steps = tests.size() * fd::idx(repetitions + 1);
  std::size_t done = 0;
  for (int round = 0; round <= repetitions; ++round) {
    for (BenchTest& test : tests) {
      bar.show(done++, steps);
      const double rate = rate_of(test, passes, n_vocab);
      if (round > 0) test.rates.push_back(rate);
    }
  }
}

int run(const Arguments& a) {
  std::vector<BenchTest> tests;
  for (const int n : parse_sizes("-p", a.prompts)) tests.push_back({false, n, {}});
  for (const int n : parse_sizes("-n", a.generations)) tests.push_back({true, n, {}});
  if (tests.empty()) throw UsageError("no test", "sizes above 0", "give them with -p or -n");
  a.machine.check_device();
  const auto isa = a.machine.isa();
  const auto path = find_model(a.model);
  // All tests take turns in one cache.
  const int longest = std::ranges::max_element(tests, {}, &BenchTest::n)->n;
  Models models({.target = path,
                 .threads = a.machine.threads,
                 .isa = isa,
                 .n_ctx = longest,
                 .check = [&](const fd::ModelConfig& c) { check_longest(longest, c.n_ctx); },
                 .keep_packed = a.machine.keep_packed,
                 .rows = int{kBlock},
                 .on_gpu = a.machine.on_gpu()});
  const auto passes = models.target.make_passes(longest, int{kBlock});
  measure(tests, a.repetitions, *passes, models.target.config().n_vocab);

  const BenchReport report{.cpu = processor_name(),
                           .cores = static_cast<int>(std::thread::hardware_concurrency()),
                           .threads = models.cpu.threads(),
                           .isa = models.isa(),
                           .model = path.stem().string(),
                           .model_bytes = std::filesystem::file_size(path),
                           .family = models.target.config().family,
                           .tests = tests};
  if (a.format == "json") {
    print_json(report.json());
  } else {
    write_out(a.format == "csv" ? report.csv() : report.table());
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
  add_value(*command, "-p,--n-prompt LIST", a->prompts,
            "sizes of forward passes, as in 1,2,8-16+4,32-512*2 [" + a->prompts + "]");
  add_value(*command, "-n,--n-gen LIST", a->generations,
            "tokens to decode, in the same form [" + a->generations + "]");
  add_number(*command, "-r,--repetitions N", a->repetitions, 1, 1000,
             "measurements of each test [5]");
  add_choice(*command, "-o,--output FORMAT", a->format, {"md", "csv", "json"},
             "md, csv or json [md]");
  a->machine.add_to(*command);
  a->machine.add_device(*command);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
