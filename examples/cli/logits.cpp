#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "engine.hpp"
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

using Ranking = std::vector<std::pair<fd::TokenId, double>>;

/// The best tokens of a row with their natural log probabilities over the full vocabulary; ties to
/// the lower id. @errors kInvalidLogits
Ranking ranking(std::span<const float> logits, int top) {
  double greatest = -std::numeric_limits<double>::infinity();
  bool nan = false;
  for (const float logit : logits) {
    nan |= std::isnan(logit);
    greatest = std::max(greatest, static_cast<double>(logit));
  }
  if (nan || !std::isfinite(greatest)) {
    throw fd::Error(fd::ErrorCode::kInvalidLogits, "a row of logits with NaN or no finite value",
                    "finite logits", "the weights are damaged");
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
  const double log_sum = greatest + std::log(sum);

  std::vector<fd::TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](fd::TokenId a, fd::TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto count = std::min<std::ptrdiff_t>(top, std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), better);
  Ranking best;
  for (const fd::TokenId id : std::span(ids).first(static_cast<std::size_t>(count))) {
    const double logit = logits[static_cast<std::size_t>(id)];
    if (std::isfinite(logit)) best.emplace_back(id, logit - log_sum);
  }
  return best;
}

void print_table(const fd::Tokenizer& tokenizer, std::span<const fd::TokenId> tokens,
                 const std::vector<Ranking>& rankings) {
  std::string table;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    table += std::to_string(i) + "  " + excerpt(tokenizer.piece(tokens[i], true), 30) + " ->";
    for (const auto& [id, logprob] : rankings[i]) {
      char number[32];
      std::snprintf(number, sizeof number, " %.4f", logprob);
      table += "  " + excerpt(tokenizer.piece(id, true), 30) + number;
    }
    table += '\n';
  }
  write_out(table);
}

int run(const Arguments& a) {
  a.text.check();
  const auto isa = a.machine.isa();
  const auto model = find_model(a.model);
  const std::string text = a.text.read();
  Engine engine({model, {}, a.machine.threads, isa, 0});
  const auto tokens = engine.tokenizer().encode(text, {.add_bos = true, .parse_special = true});
  if (tokens.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a text without tokens", "at least one token",
                    "this model begins with no token of its own, so give it some text");
  }
  std::vector<Ranking> rankings;
  engine.each_row(tokens, [&](int, std::span<const float> logits) {
    rankings.push_back(ranking(logits, a.top));
  });
  if (a.json) {
    print_json(Json::object({{"tokens", tokens}, {"top", rankings}}));
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
  command->add_option("--top", a->top, "tokens to show at each position [5]")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("K");
  a->machine.add_to(*command);
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
