// Whole answers of real models on machines that are not there: what is drafted and accepted is computed, what time it
// takes is looked up. So a controller can be judged to a percent, where a clock is 25 % off from one answer to the next,
// and on every machine whose passes were measured once. As JSON, one object a line: an answer.
//
// A pass of the target takes the seconds that bench.goals measured for so many rows (at 256 positions, between two of
// them, and beyond the last, the line through both). One of the draft model takes `step` times as long. Lookups, and
// reading the prompt by the target, take none: ratios are those of decoding. A session answers all prompts, one after the
// other, as a program's.
// simulated.py runs it for several machines and draft models, and writes the result file.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/decoder.hpp>

#include "../support/program.hpp"
#include "always_wrong.hpp"
#include "draft.hpp"
#include "draft_over.hpp"
#include "model_path.hpp"
#include "models.hpp"
#include "prompts.hpp"
#include "speculation.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

/// A machine by its passes; nothing else moves the clock on.
class Machine {
 public:
  static double now() { return seconds_; }
  static void pass(const Machine& machine, int rows, double times) {
    seconds_ += times * machine.seconds_of(rows);
  }

  /// @param file  a result of bench.goals
  explicit Machine(const std::filesystem::path& file)
      : name_(file.parent_path().filename().string()) {
    std::ifstream in(file);
    if (!in) throw std::invalid_argument(file.string() + " cannot be read");
    const Json result = Json::parse(in);
    for (const auto& [rows, seconds] : result.at("pass_seconds").at("256").items()) {
      measured_[std::stoi(rows)] = seconds.at("median");
    }
    if (measured_.size() < 2) throw std::invalid_argument(file.string() + " has too few passes");
  }

  const std::string& name() const { return name_; }
  double seconds_of(int rows) const {
    auto above = std::next(measured_.begin());
    while (std::next(above) != measured_.end() && above->first < rows) ++above;
    const auto [r0, t0] = *std::prev(above);
    const auto [r1, t1] = *above;
    return t0 + (t1 - t0) * (rows - r0) / (r1 - r0);
  }

 private:
  static inline double seconds_ = 0;
  std::string name_;
  std::map<int, double> measured_;
};

/// A draft model whose passes take their time on a machine.
struct TimedModel {
  static constexpr bool row_exact = cli::Model::row_exact;

  int vocab_size() const { return model->vocab_size(); }
  fd::TargetInfo info() const { return model->info(); }
  const fd::Tokenizer& tokenizer() const { return model->tokenizer(); }
  template <typename C>
  void forward(std::span<fd::Request<C>> requests) {
    model->forward(requests);
    for (const auto& request : requests) {
      Machine::pass(*machine, request.count, step);
    }
  }

  cli::Model* model;
  const Machine* machine;
  double step;
};

constexpr fd::Shape kTree = fd::Shape::kTree;

/// Drafters that are told the machine's time, not that of this one.
class DraftersOn : public cli::Drafters<kTree> {
  using Base = cli::Drafters<kTree>;

 public:
  explicit DraftersOn(const Machine& machine) : machine_(&machine) { use_clock(&Machine::now); }

  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    const double begin = Machine::now();
    Base::propose(context, limit, draft);
    drafting_ = Machine::now() - begin;
  }
  void commit(const fd::Round& round) noexcept {
    const double begin = Machine::now();
    Machine::pass(*machine_, round.draft.size(), 1);
    fd::Round told = round;
    told.cost = {.draft = std::exchange(drafting_, 0), .verify = Machine::now() - begin};
    Base::commit(told);
  }

 private:
  const Machine* machine_;
  double drafting_ = 0;
};

struct Arguments {
  std::string target = "qwen2.5-coder-1.5b";
  std::string draft;
  std::vector<std::string> added;  // to those that auto asks
  bool wrong = false;
  double step = 0.25;
  std::vector<std::string> machines{"bench/results/zen5/goals-qwen2.5-coder-1.5b.json"};
  std::string prompts = "bench/prompts/dev.jsonl";
  std::vector<std::string> groups;
  int limit = 0;
  int n = 128;
  int threads = 0;
};

class Session {
 public:
  Session(cli::Models& models, const Machine& machine, const Arguments& args)
      : machine_(machine),
        decoder_(*models.target_on_cpu(), cli::Cache(models.target.shape(), kContext),
                 args.wrong ? wrong(machine) : drafters(models, machine, args),
                 fd::SampleAndMatch{}) {}

  Json answer(std::span<const fd::TokenId> prompt, int n) {
    const double begin = Machine::now();
    const fd::Result result = decoder_.generate(prompt, {.max_tokens = n});
    const double seconds = Machine::now() - begin;
    const auto n_tokens = static_cast<double>(result.tokens.size());
    return {{"machine", machine_.name()},
            {"tokens", result.tokens},
            {"ratio", n_tokens * machine_.seconds_of(1) / seconds},
            {"rounds", result.stats.rounds},
            {"drafted", result.stats.drafted},
            {"accepted", result.stats.accepted},
            {"speculation", result.speculation}};
  }

 private:
  static constexpr int kContext = 4096;

  static DraftersOn wrong(const Machine& machine) {
    DraftersOn chosen(machine);
    chosen.add("wrong", bench::AlwaysWrong());
    return chosen;
  }

  DraftersOn drafters(cli::Models& models, const Machine& machine, const Arguments& args) {
    const cli::Method method{
        .speculation = cli::kAuto, .rule = cli::rule_named("match"), .n_ctx = kContext};
    DraftersOn chosen(machine);
    for (const cli::DrafterKind& kind : cli::drafters()) {
      if (!kind.in_auto && std::ranges::count(args.added, kind.name) == 0) continue;
      if (!kind.needs_model) {
        chosen.add(kind.name, kind.make(models, method));
      } else if (models.draft) {
        auto& on_cpu = dynamic_cast<cli::ModelOn<cli::Model, cli::Draft>&>(*models.draft);
        draft_ = std::make_unique<TimedModel>(TimedModel{&on_cpu.model, &machine, args.step});
        cli::Cache cache(on_cpu.shape(), models.draft_context(kContext));
        chosen.add(kind.name, cli::draft_over(*draft_, std::move(cache), models, method));
      }
    }
    return chosen;
  }

  const Machine& machine_;
  std::unique_ptr<TimedModel> draft_;
  fd::Decoder<cli::Model, cli::Cache, DraftersOn, fd::SampleAndMatch> decoder_;
};

int run(const Arguments& args) {
  cli::Models models(
      {.target = cli::find_model(args.target),
       .draft = args.draft.empty() ? std::filesystem::path() : cli::find_model(args.draft),
       .threads = args.threads});
  const std::vector<Machine> machines(args.machines.begin(), args.machines.end());
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Machine& machine : machines)
    sessions.push_back(std::make_unique<Session>(models, machine, args));
  const fd::Tokenizer& tokenizer = models.target.tokenizer();
  std::ifstream in(args.prompts);
  if (!in) throw std::invalid_argument(args.prompts + " cannot be read");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(in, line);) {
    const Json prompt = Json::parse(line);
    const std::string group = prompt.at("group");
    const bool asked =
        args.groups.empty() || std::ranges::find(args.groups, group) != args.groups.end();
    if (!asked || (args.limit > 0 && ++seen[group] > args.limit)) continue;
    const auto tokens = cli::encode_prompt(tokenizer, prompt.at("prompt"), false);
    for (auto& session : sessions) {
      Json reply{{"id", prompt.at("id")}, {"group", group}, {"prompt_tokens", tokens.size()}};
      reply.update(session->answer(tokens, args.n));
      std::cout << reply.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Whole answers on machines that were measured before: a JSON object a line.");
  app.add_option("-m,--model", args.target, "a file, or a name")->capture_default_str();
  app.add_option("-d,--draft", args.draft, "a draft model");
  app.add_option("--add", args.added, "drafters that auto does not ask")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return cli::drafter_named(name) != nullptr ? "" : "no drafter is named " + name;
      });
  app.add_flag("--wrong", args.wrong, "in place of all drafters one that is always wrong");
  app.add_option("--step", args.step, "a pass of the draft model, in passes of the target")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--passes", args.machines, "results of bench.goals")->capture_default_str();
  app.add_option("-f,--prompts", args.prompts)->capture_default_str();
  app.add_option("--groups", args.groups, "of prompts; all without it");
  app.add_option("--limit", args.limit, "prompts of each group; 0: all")->capture_default_str();
  app.add_option("-n,--max-tokens", args.n)->capture_default_str();
  app.add_option("-t,--threads", args.threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(args); });
}
