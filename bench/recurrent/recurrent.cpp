// What passes of a model with recurrent layers cost, as JSON: verification by rows, decoding, and what
// the ways to keep states (Replay, Slots) add behind a draft that was accepted.
//
//   bench.recurrent -m qwen3.5-0.8b.gguf
//
// bench/recurrent/models.py makes such files. The two ways take turns.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/models.hpp>

#include "../support/program.hpp"
#include "../support/summary.hpp"
#include "model_path.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Model = fd::Model<fd::Cpu>;
using Clock = std::chrono::steady_clock;

constexpr int kRows[] = {1, 2, 4, 8, 16};
constexpr int kAccepted[] = {1, 4, 8};  // rows of eight that are committed
constexpr int kDepth = 8;
constexpr int kMaxStaged = 64;
constexpr int kContext = 1024;
constexpr int kDecoded = 16;
constexpr int kMostInTurn = 64;  // rows that it commits, and those staged behind them

std::vector<fd::Node> chain(int n) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({100 + i * 37 % 1000, i - 1});
  return nodes;
}

/// One text of a model, with a cache that keeps states as V does.
template <fd::StateStorage V>
class Text {
 public:
  using Cache = fd::HybridCache<fd::f16, V>;

  explicit Text(Model& model) : model_(model), cache_(model.shape(), kContext, kMaxStaged) {
    begin();
  }

  struct Seconds {
    double pass = 0;
    double rest = 0;  // staging and commit
  };
  /// A pass of `rows` rows of which the first `accepted` are committed.
  Seconds pass(int rows, int accepted) {
    const auto nodes = chain(rows);
    const auto path = fd::first_nodes(accepted);
    fd::Request<Cache> request{&cache_, 0, rows, {fd::RowNeed::kArgmax, {}}, &scores_};
    const auto t0 = Clock::now();
    cache_.stage(nodes);
    const auto t1 = Clock::now();
    model_.forward(std::span(&request, 1));
    const auto t2 = Clock::now();
    cache_.commit(path);
    cache_.discard();
    const auto t3 = Clock::now();
    return {seconds(t1, t2), seconds(t0, t1) + seconds(t2, t3)};
  }

  /// A turn begins: there is room for it, and the text is where it would be within one.
  void begin_turn() {
    if (cache_.size() + kMostInTurn > kContext) begin();
    pass(1, 0);
  }

  static double bytes(const Model& model) {
    return Cache::full_bytes(model.shape(), kContext, kMaxStaged);
  }

 private:
  static double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  /// Behind 256 tokens, and nothing waits for the state.
  void begin() {
    cache_.truncate(0);
    for (int i = 0; i < 4; ++i) pass(kMaxStaged, kMaxStaged);
    pass(1, 0);
  }

  Model& model_;
  Cache cache_;
  fd::Scores scores_;
};

using Values = std::map<std::string, std::vector<double>>;

/// A turn: passes behind which nothing is kept, by rows; those of eight rows behind a commit, each
/// beside one behind none; plain decoding.
template <fd::StateStorage V>
void take_turn(Text<V>& text, Values& values) {
  text.begin_turn();
  for (const int rows : kRows) values[std::to_string(rows)].push_back(text.pass(rows, 0).pass);
  for (const int accepted : kAccepted) {
    const auto name = std::to_string(accepted);
    values["rest_of_round_" + name].push_back(text.pass(kDepth, accepted).rest);
    const double behind = text.pass(kDepth, 0).pass;
    values["behind_" + name].push_back(behind / text.pass(kDepth, 0).pass);
  }
  double decoding = 0;
  for (int i = 0; i < kDecoded; ++i) {
    const auto [pass, rest] = text.pass(1, 1);
    decoding += pass + rest;
  }
  text.pass(1, 0);
  values["tokens_per_s"].push_back(kDecoded / decoding);
}

template <fd::StateStorage V>
Json report(const Model& model, const Values& values) {
  Json passes, over_one, behind, rest;
  for (const int rows : kRows) {
    const auto name = std::to_string(rows);
    passes[name] = bench::summary(values.at(name));
    over_one[name] = bench::summary(bench::ratios(values.at(name), values.at("1")));
  }
  for (const int accepted : kAccepted) {
    const auto name = std::to_string(accepted);
    behind[name] = bench::summary(values.at("behind_" + name));
    rest[name] = bench::summary(values.at("rest_of_round_" + name));
  }
  return {{"cache_bytes", Text<V>::bytes(model)},
          {"tokens_per_s", bench::summary(values.at("tokens_per_s"))},
          {"pass_seconds", passes},
          {"of_one_row", over_one},
          {"behind_a_commit", behind},
          {"stage_and_commit_seconds", rest}};
}

int run(const std::string& name, int repetitions, int threads) {
  fd::Cpu cpu{{.threads = threads}};
  const auto path = cli::find_model(name);
  Model model = fd::load(cpu, path);
  Text<fd::Replay> replay(model);
  Text<fd::Slots> slots(model);
  Values of_replay, of_slots;
  take_turn(replay, of_replay), take_turn(slots, of_slots);
  of_replay.clear(), of_slots.clear();
  for (int i = 0; i < repetitions; ++i) {
    take_turn(replay, of_replay);
    take_turn(slots, of_slots);
  }
  const Json out{{"model", path.stem().string()},
                 {"isa", fd::cpu::name_of(cpu.isa())},
                 {"threads", cpu.threads()},
                 {"repetitions", repetitions},
                 {"replay", report<fd::Replay>(model, of_replay)},
                 {"slots", report<fd::Slots>(model, of_slots)}};
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model;
  int repetitions = 15;
  int threads = 0;
  CLI::App app("Passes of a model with recurrent layers, as JSON.");
  app.add_option("-m,--model", model, "a file, or a name")->required();
  app.add_option("-r,--repetitions", repetitions, "turns")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("-t,--threads", threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(model, repetitions, threads); });
}
