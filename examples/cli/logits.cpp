#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/sampling/logprobs.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "engine.hpp"
#include "logprob_report.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  TextArgument text;
  MachineArguments machine;
  int top = 5;
  bool json = false;
};

using Ranking = std::vector<fd::TokenLogprob>;

void print_table(const fd::Tokenizer& tokenizer, std::span<const fd::TokenId> tokens,
                 const std::vector<Ranking>& rankings) {
  std::string table;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    table += std::to_string(i) + "  " + excerpt(tokenizer.piece(tokens[i], true), 30) + " ->" +
             row_of(tokenizer, rankings[i]) + '\n';
  }
  write_out(table);
}

void check_top(int top, int n_vocab) {
  if (top <= n_vocab) return;
  throw UsageError("--top " + std::to_string(top),
                   "at most the " + std::to_string(n_vocab) + " tokens of the vocabulary",
                   "5 is the default");
}

int run(const Arguments& a) {
  a.text.check();
  const auto isa = a.machine.isa();
  const auto model = find_model(a.model);
  const std::string text = a.text.read();
  Engine engine({.model = model,
                 .threads = a.machine.threads,
                 .isa = isa,
                 .check = [&](const fd::ModelConfig& c) { check_top(a.top, c.n_vocab); },
                 .packed_cache = a.machine.packed_cache});
  const auto tokens = engine.tokenizer().encode(text, {.add_bos = true, .parse_special = true});
  if (tokens.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a text without tokens", "at least one token",
                    "this model begins with no token of its own, so give it some text");
  }
  std::vector<Ranking> rankings;
  engine.each_row(tokens, [&](int, std::span<const float> logits) {
    rankings.push_back(fd::top_logprobs(logits, a.top));
  });
  if (a.json) {
    Json top = Json::array();
    for (const Ranking& ranking : rankings) top.push_back(to_json(ranking));
    print_json(Json::object({{"tokens", tokens}, {"top", top}}));
  } else {
    print_table(engine.tokenizer(), tokens, rankings);
  }
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "logits",
      "Show the best next tokens after each token of a text, with natural log probabilities. No "
      "chat format; special tokens are parsed, BOS is added where the model asks for it.");
  const auto a = std::make_shared<Arguments>();
  add_model_option(*command, a->model);
  a->text.add_to(*command, "the text");
  limit(command->add_option("--top", a->top, "tokens to show at each position [5]"), 1,
        std::numeric_limits<int>::max())
      ->type_name("K");
  a->machine.add_to(*command);
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
