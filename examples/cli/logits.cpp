#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/sampling/logprobs.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "logprob_report.hpp"
#include "model_path.hpp"
#include "models.hpp"
#include "output.hpp"
#include "passes.hpp"
#include "target.hpp"
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

/// For each token, the best ones behind it. @errors kContextOverflow
std::vector<Ranking> rank(Target& target, std::span<const fd::TokenId> tokens, int top) {
  const std::size_t most = fd::idx(target.shape().n_ctx);
  if (tokens.size() > most) {
    throw fd::Error(
        fd::ErrorCode::kContextOverflow, "a text of " + std::to_string(tokens.size()) + " tokens",
        "at most the " + std::to_string(most) + " of the model's context", "shorten the text");
  }
  constexpr std::size_t kRows = 32;  // of a pass: 32 rows of 152k logits are 20 MB
  const auto passes = target.make_passes(static_cast<int>(tokens.size()), int{kRows});
  fd::Scores scores;
  std::vector<Ranking> rankings;
  for (auto rest = tokens; !rest.empty();) {
    const auto block = rest.first(std::min(rest.size(), kRows));
    rest = rest.subspan(block.size());
    passes->forward(block, block.size(), fd::RowNeed::kLogits, scores);
    for (int row = 0; row < scores.rows(); ++row) {
      rankings.push_back(fd::top_logprobs(std::as_const(scores).logits(row), top));
    }
  }
  return rankings;
}

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
  Models models({.target = model,
                 .threads = a.machine.threads,
                 .isa = isa,
                 // Asked of the file's head, before its weights are read.
                 .check = [&](const fd::ModelConfig& c) { check_top(a.top, c.n_vocab); },
                 .keep_packed = a.machine.keep_packed});
  const fd::Tokenizer& tokenizer = models.target.tokenizer();
  const auto tokens = tokenizer.encode(text, {.add_bos = true, .parse_special = true});
  if (tokens.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a text without tokens", "at least one token",
                    "this model begins with no token of its own, so give it some text");
  }
  const std::vector<Ranking> rankings = rank(models.target, tokens, a.top);
  if (a.json) {
    Json top = Json::array();
    for (const Ranking& ranking : rankings) top.push_back(to_json(ranking));
    print_json(Json::object({{"tokens", tokens}, {"top", top}}));
  } else {
    print_table(tokenizer, tokens, rankings);
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
  add_number(*command, "--top K", a->top, 1, std::numeric_limits<int>::max(),
             "tokens to show at each position [5]");
  a->machine.add_to(*command);
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
