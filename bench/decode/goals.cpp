// The goals that one model and one machine decide: how much of the memory's speed plain decoding
// reaches (K1), what further rows cost at 256 and at 4096 positions (K3), the use of the int8 dot
// product (K5), what the host does between forward passes (K6), attention at a long context (K8).
//
// Everything is measured in turns, and ratios are taken turn by turn, that of K1 pair by pair. The
// result is one JSON object with every value; a table goes to the error stream.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <foredraft/acceptance/any_acceptance.hpp>
#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/drafter/chain.hpp>
#include <foredraft/drafter/ngram_cache.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>
#include <foredraft/drafter/suffix_automaton.hpp>
#include <foredraft/drafter/suffix_decoding.hpp>
#include <foredraft/drafter/token_recycling.hpp>
#include <nlohmann/json.hpp>

#include "../micro/peaks.hpp"
#include "../support/program.hpp"
#include "../support/summary.hpp"
#include "attention_runs.hpp"
#include "host_work.hpp"
#include "model_path.hpp"
#include "passes.hpp"

namespace {

namespace fd = foredraft;
using bench::summary;
using Json = nlohmann::ordered_json;
using Values = std::vector<double>;

struct Arguments {
  std::string model;
  std::vector<int> rows{1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
  std::vector<int> positions{256, 4096};
  int threads = 0;
  int repetitions = 9;
  std::string isa;
};

/// Passes that together take about as long as `wanted`, in seconds, and `least` at least; the median
/// of them.
template <typename F>
double steady(F&& seconds_of_one, double wanted = 0.03, int least = 3) {
  Values values{seconds_of_one()};
  const int more = std::clamp(static_cast<int>(wanted / std::max(values[0], 1e-6)), least - 1, 14);
  for (int i = 0; i < more; ++i) values.push_back(seconds_of_one());
  return bench::median(values);
}

/// Products a second of the kernel for M = 8 and weights that stay in the second level cache.
double products_from_cache(const fd::cpu::KernelTable& kernels, const fd::cpu::PackedMatrix& w,
                           const bench::RandomActivations& in, std::vector<float>& out) {
  constexpr int kCalls = 200;
  double best = 0;
  for (int i = 0; i < 5; ++i) {  // the best, as for the peak
    const auto begin = bench::Clock::now();
    for (int call = 0; call < kCalls; ++call) {
      kernels.matmul(w.panels(), in.view(), 0, w.n_panels(), out.data(), fd::idx(w.n_out()), {});
    }
    best = std::max(best, 8.0 * kCalls * w.n_out() * w.n_in() / bench::seconds_since(begin));
  }
  return best;
}

/// What the turns gathered.
struct Measured {
  Values stream, plain;  // bytes/s and, each beside one of those, seconds of one row
  Values stream_of_one, dot, dot_of_all;
  std::map<int, std::map<int, Values>> pass;  // [positions][rows] seconds
  std::map<std::string, Values> dot_use;      // by format
};

const std::pair<const char*, fd::TensorType> kFormats[] = {{"Q4_K", fd::TensorType::kQ4_K},
                                                           {"Q6_K", fd::TensorType::kQ6_K},
                                                           {"Q5_0", fd::TensorType::kQ5_0},
                                                           {"Q4_1", fd::TensorType::kQ4_1},
                                                           {"Q8_0", fd::TensorType::kQ8_0}};

Measured measure(const Arguments& a, fd::Cpu& cpu, bench::Passes& passes) {
  fd::Cpu one({.threads = 1, .isa = cpu.isa()});
  bench::StreamRead stream(cpu);
  bench::StreamRead stream_of_one(one);
  const auto& kernels = bench::kernels_of(cpu.isa());
  // The memory's speed changes from moment to moment, by more than K1 is about.
  constexpr int kPairs = 12;
  constexpr std::size_t kOut = 256;
  constexpr std::size_t kIn = 1536;
  std::vector<float> out(8 * kOut);
  Measured m;
  for (int turn = 0; turn <= a.repetitions; ++turn) {  // the first one warms up
    std::fprintf(stderr, "\rturn %d of %d", turn, a.repetitions);
    const auto note = [&](Values& to, double value) {
      if (turn > 0) to.push_back(value);
    };
    for (int pair = 0; pair < kPairs; ++pair) {
      note(m.stream, stream.bytes_per_second());
      // For as long as a stream read takes: of longer times more are spoilt by what disturbs them.
      note(m.plain, steady([&] { return passes.verification(1, a.positions.front()); }, 0.01, 1));
    }
    for (const int position : a.positions) {
      for (const int rows : a.rows) {
        note(m.pass[position][rows], steady([&] { return passes.verification(rows, position); }));
      }
    }
    note(m.stream_of_one, stream_of_one.bytes_per_second());
    note(m.dot_of_all, bench::dot_peak(cpu));
    for (const auto& [name, type] : kFormats) {
      const auto weights = bench::random_matrices(type, kOut, kIn, 0);
      const bench::RandomActivations in(kernels, type, 8, kIn);
      const double dot = bench::dot_peak(one);
      if (name == kFormats[0].first) note(m.dot, dot);
      note(m.dot_use[name], products_from_cache(kernels, weights[0], in, out) / dot);
    }
  }
  std::fprintf(stderr, "\n");
  return m;
}

/// Those that the program asks without a draft model.
auto all_drafters() {
  constexpr fd::Shape kTree = fd::Shape::kTree;
  return fd::Chain{fd::PromptLookup{}, fd::NgramCache{}, fd::SuffixDecoding<kTree>{},
                   fd::SuffixAutomaton{}, fd::TokenRecycling<kTree>{}};
}

Json host_work(const Arguments& a, bench::Model& model) {
  struct Kind {
    const char* name;
    fd::AnyAcceptance rule;
    fd::Options options;
  };
  // Of one depth, so that rounds are alike, whatever a controller would make of this machine.
  const auto options = [](const fd::SamplingOptions& sampling) {
    return fd::Options{.max_tokens = 96, .n_draft = 16, .sampling = sampling, .ignore_end = true};
  };
  const fd::Options greedy = options({});
  const fd::Options top_k = options({.temperature = 0.8f, .top_k = 40, .top_p = 0.95f});
  const fd::Options top_p = options({.temperature = 0.8f, .top_p = 0.95f});
  const fd::Options uncut = options({.temperature = 1.0f});
  const Kind kinds[] = {{"greedy", fd::SampleAndMatch{}, greedy},
                        {"temperature 0.8, top-k 40, top-p 0.95", fd::SampleAndMatch{}, top_k},
                        {"temperature 0.8, top-p 0.95", fd::SampleAndMatch{}, top_p},
                        {"temperature 1", fd::SampleAndMatch{}, uncut},
                        {"rejection, temperature 1", fd::RejectionSampling{}, uncut}};
  Json result;
  std::map<std::string, Values> per_round, rows, drafted, per_row;
  Values with_all;
  for (int turn = 0; turn <= a.repetitions; ++turn) {
    double of_greedy = 0;
    for (const Kind& kind : kinds) {
      const auto work = bench::host_work(model, fd::PromptLookup{}, kind.rule, kind.options);
      if (kind.options.sampling.temperature == 0.0f) of_greedy = work.per_round;
      if (turn == 0) continue;
      per_round[kind.name].push_back(1e6 * work.per_round);
      rows[kind.name].push_back(work.rows);
      drafted[kind.name].push_back(work.drafted);
      per_row[kind.name].push_back(1e6 * (work.per_round - of_greedy) / work.rows);
    }
    fd::Options chosen = greedy;  // as deep as the controller makes it, as anybody has it
    chosen.n_draft = fd::Options::kAutomatic;
    const auto work = bench::host_work(model, all_drafters(), fd::Greedy{}, chosen);
    if (turn > 0) with_all.push_back(1e6 * work.per_round);
  }
  result["greedy, all drafters"] = {{"microseconds_a_round", summary(with_all)}};
  for (const Kind& kind : kinds) {
    Json one{{"microseconds_a_round", summary(per_round[kind.name])},
             {"rows_read_a_round", bench::median(rows[kind.name])},
             {"drafted_a_round", bench::median(drafted[kind.name])}};
    if (kind.options.sampling.temperature > 0)
      one["microseconds_a_row"] = summary(per_row[kind.name]);
    result[kind.name] = one;
  }
  return result;
}

/// Times of `rows` rows over those of one row, turn by turn.
Values relative(const std::map<int, Values>& passes, int rows) {
  return bench::ratios(passes.at(rows), passes.at(1));
}

Values scaled(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

Json report(const Measured& m, const bench::WeightBytes& bytes) {
  Json out;
  const double best = *std::max_element(m.stream.begin(), m.stream.end());
  Values rate;
  for (const double seconds : m.plain) rate.push_back(bytes.packed / seconds);
  out["weight_bytes"] = {{"packed", bytes.packed}, {"in_file", bytes.in_file}};
  out["weights"] = bytes.values;
  out["stream_read_GB_per_s"] = {{"all_threads", summary(scaled(m.stream, 1e-9))},
                                 {"1_thread", summary(scaled(m.stream_of_one, 1e-9))},
                                 {"best", best * 1e-9}};
  out["dot_int8_GMAC_per_s_1_thread"] = summary(scaled(m.dot, 1e-9));
  out["dot_int8_GMAC_per_s_all_threads"] = summary(scaled(m.dot_of_all, 1e-9));
  for (const auto& [position, rows] : m.pass) {
    for (const auto& [n, seconds] : rows) {
      out["pass_seconds"][std::to_string(position)][std::to_string(n)] = summary(seconds);
    }
  }
  out["K1"] = {{"GB_per_s", summary(scaled(rate, 1e-9))},
               {"of_stream_read_beside", summary(bench::ratios(rate, m.stream))},
               {"of_best_stream_read", bench::median(rate) / best}};
  for (const auto& [position, rows] : m.pass) {
    for (const auto& [n, seconds] : rows) {
      if (n > 1)
        out["K3"][std::to_string(position)][std::to_string(n)] = summary(relative(rows, n));
    }
  }
  for (const auto& [name, use] : m.dot_use) out["K5"][name] = summary(use);
  return out;
}

/// K8: what reads memory stands beside a stream read, what computes beside the peak, and caches of
/// two types beside each other.
Json attention(const Arguments& a, fd::Cpu& cpu, const fd::ModelConfig& config) {
  const int positions = a.positions.back();
  constexpr int kRows = 8;
  constexpr int kPairs = 8;
  bench::StreamRead stream(cpu);
  bench::AttentionRuns<fd::f16> half(cpu, config, positions);
  std::optional<bench::AttentionRuns<fd::q8_0>> quantized;
  if (config.layers.front().attention.d_head % fd::cpu::kHeadMultiple<fd::q8_0> == 0)
    quantized.emplace(cpu, config, positions);
  Values read, use, peak, seconds, seconds_of_rows, smaller, smaller_of_rows;
  for (int turn = 0; turn <= a.repetitions; ++turn) {  // the first one warms up
    if (turn == 1) read = use = peak = seconds = seconds_of_rows = smaller = smaller_of_rows = {};
    for (int pair = 0; pair < kPairs; ++pair) {
      seconds.push_back(half.seconds(1));
      read.push_back(half.bytes() / seconds.back() / stream.bytes_per_second());
      if (quantized) smaller.push_back(quantized->seconds(1) / half.seconds(1));
    }
    for (int pair = 0; pair < kPairs; ++pair) {
      seconds_of_rows.push_back(half.seconds(kRows));
      peak.push_back(bench::fma_peak(cpu));
      use.push_back(half.macs(kRows) / seconds_of_rows.back() / peak.back());
      if (quantized) smaller_of_rows.push_back(quantized->seconds(kRows) / half.seconds(kRows));
    }
  }
  Json out{{"positions", positions},
           {"M1_of_stream_read", summary(read)},
           {"M8_of_fma_peak", summary(use)},
           {"fma_f32_GMAC_per_s_all_threads", summary(scaled(peak, 1e-9))},
           {"seconds", {{"1", summary(seconds)}, {"8", summary(seconds_of_rows)}}}};
  if (quantized) {
    out["q8_0_time_of_f16"] = {{"1", summary(smaller)}, {"8", summary(smaller_of_rows)}};
  }
  return out;
}

void print_table(const Json& out) {
  const auto line = [](const std::string& what, const Json& s, double goal) {
    std::fprintf(stderr, "%-52s %8.3f  (p10 %.3f, p90 %.3f)", what.c_str(),
                 s["median"].get<double>(), s["p10"].get<double>(), s["p90"].get<double>());
    if (goal > 0) std::fprintf(stderr, "  goal %.2f", goal);
    std::fprintf(stderr, "\n");
  };
  line("stream read, all threads, GB/s", out["stream_read_GB_per_s"]["all_threads"], 0);
  line("K1 weights, GB/s", out["K1"]["GB_per_s"], 0);
  line("K1 of the stream read beside it", out["K1"]["of_stream_read_beside"], 0);
  std::fprintf(stderr, "%-52s %8.3f\n", "K1 of the best stream read",
               out["K1"]["of_best_stream_read"].get<double>());
  for (const auto& [position, rows] : out["K3"].items()) {
    for (const auto& [n, s] : rows.items()) {
      const double goal = position != "256" ? 0
                          : n == "4"        ? 1.1
                          : n == "8"        ? 1.5
                          : n == "16"       ? 3
                                            : 0;
      line("K3 T(" + n + ")/T(1) at " + position, s, goal);
    }
  }
  for (const auto& [format, s] : out["K5"].items()) line("K5 dot use, M = 8, " + format, s, 0.73);
  for (const auto& [name, work] : out["K6"].items()) {
    line("K6 us a round, " + name, work["microseconds_a_round"],
         name.starts_with("greedy") ? 20 : 0);
    if (work.contains("microseconds_a_row"))
      line("   us a row read", work["microseconds_a_row"], 50);
  }
  line("K8 attention M = 1 of the stream read", out["K8"]["M1_of_stream_read"], 0.75);
  line("K8 attention M = 8 of the multiply-add peak", out["K8"]["M8_of_fma_peak"], 0.65);
  if (out["K8"].contains("q8_0_time_of_f16")) {
    for (const auto& [n, s] : out["K8"]["q8_0_time_of_f16"].items())
      line("K8 q8_0 / f16 time, M = " + n, s, n == "1" ? 0.8 : 0);
  }
}

int run(Arguments a) {
  std::optional<fd::cpu::Isa> isa;
  for (const fd::cpu::Isa one : fd::cpu::executable_isas()) {
    if (a.isa == fd::cpu::name_of(one)) isa = one;
  }
  if (!a.isa.empty() && !isa) {
    throw fd::Error(fd::ErrorCode::kInvalidOption, "--isa " + a.isa, "one that this machine runs");
  }
  a.rows.insert(a.rows.end(), {1, 8});  // what the others are compared with, and K3 with eight rows
  std::sort(a.rows.begin(), a.rows.end());
  a.rows.erase(std::unique(a.rows.begin(), a.rows.end()), a.rows.end());
  std::sort(a.positions.begin(), a.positions.end());
  fd::Cpu cpu{{.threads = a.threads, .isa = isa}};
  const auto path = cli::find_model(a.model);
  const fd::Gguf file = fd::Gguf::open(path);
  bench::Model model = fd::load(cpu, file);
  Json out{{"model", path.stem().string()},
           {"isa", fd::cpu::name_of(cpu.isa())},
           {"threads", cpu.threads()},
           {"repetitions", a.repetitions}};
  {
    bench::Passes passes(model, a.positions.back());
    out.update(report(measure(a, cpu, passes), bench::weight_bytes(file)));
  }
  out["K8"] = attention(a, cpu, model.config());
  out["K6"] = host_work(a, model);
  print_table(out);
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Goals K1, K3, K5, K6 and K8 for one model, as JSON.");
  app.add_option("-m,--model", a.model, "a file, or a name")->required();
  app.add_option("--rows", a.rows, "rows of the forward passes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--positions", a.positions, "positions before them")
      ->delimiter(',')
      ->check(CLI::Range(16, 65536))
      ->capture_default_str();
  app.add_option("-r,--repetitions", a.repetitions, "turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants")
      ->capture_default_str();
  app.add_option("--isa", a.isa, "instruction set; the widest without it");
  return bench::run_program(app, argc, argv, [&] { return run(a); });
}
