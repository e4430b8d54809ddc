// Answers on request, for scripts that let engines and ways to draft take turns: one JSON object in, one out, each
// a line.
//
//   {"info": true}                         instruction set and threads
//   {"encode": "..."}                      the tokens of a prompt with its chat template, for other engines
//   {"prompt": "...", "n": 128, "speculation": "auto", "model": true, "temperature": 0, "acceptance": "match",
//    "depth": 4, "tree": true, "round": 0, "schema": "{...}", "regex": "..."}
//   {"forget": true, ...}                  the session that such an answer would use gives up its text
//
// `speculation`: as --spec-type, or "wrong" for a drafter that is always wrong, under a controller as all are;
// `model`: the draft model may be used; `depth`: a fixed one; `tree`: the draft model drafts trees that follow what it
// is sure of, as it does unless the depth is fixed; `schema`: the answer is JSON that is valid under it; `regex`: it
// matches. The answer has the tokens, the statistics and the seconds from the prompt's text to the last token. Each way
// keeps its session, and so what its drafters and its controller have learned. What a prompt shares with the session's
// last text is not read again, unless it forgot that. Another `round` begins with new sessions.

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/constraint/regex.hpp>

#include "../support/program.hpp"
#include "always_wrong.hpp"
#include "model_path.hpp"
#include "prompts.hpp"
#include "session.hpp"
#include "session_in.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

class Answers {
 public:
  Answers(const std::string& target, const std::string& draft, int threads)
      : models_({.target = cli::find_model(target),
                 .draft = draft.empty() ? std::filesystem::path() : cli::find_model(draft),
                 .threads = threads}) {}

  Json reply(const Json& asked) {
    if (asked.contains("info")) {
      return {{"isa", models_.isa()}, {"threads", models_.cpu.threads()}};
    }
    if (asked.contains("encode")) return {{"tokens", encode(asked.at("encode"))}};
    if (asked.contains("forget")) {
      // A text that begins like no prompt takes its place.
      const fd::TokenId other = 0;
      session(asked).generate({&other, 1}, {.max_tokens = 0}, [](const fd::Emitted&) {});
      return {{"forgotten", true}};
    }
    return answer(asked);
  }

 private:
  static constexpr int kContext = 4096;

  Json answer(const Json& asked) {
    const auto begin = std::chrono::steady_clock::now();
    const auto prompt = encode(asked.at("prompt"));
    fd::Options options{.max_tokens = asked.at("n"), .seed = 1};
    options.sampling.temperature = asked.value("temperature", 0.0f);
    options.n_draft = asked.value("depth", fd::Options::kAutomatic);
    if (!constrained_by(asked).empty()) options.constraint = constraint(asked);
    const fd::Result result = session(asked).generate(prompt, options, [](const fd::Emitted&) {});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const fd::Stats& s = result.stats;
    return {{"seconds", seconds.count()},
            {"tokens", result.tokens},
            {"text", result.text},
            {"finish_reason", std::string(fd::name_of(result.finish_reason))},
            {"prompt_tokens", s.prompt_tokens},
            {"reused_tokens", s.reused_tokens},
            {"rounds", s.rounds},
            {"drafted", s.drafted},
            {"accepted", s.accepted},
            {"parts",
             {{"prefill", s.seconds.prefill},
              {"draft", s.seconds.draft},
              {"verify", s.seconds.verify},
              {"accept", s.seconds.accept},
              {"commit", s.seconds.commit},
              {"decode", s.seconds.total}}},
            {"speculation", result.speculation}};
  }

  std::vector<fd::TokenId> encode(const std::string& text) const {
    return cli::encode_prompt(models_.target.tokenizer(), text, false);
  }

  static std::string constrained_by(const Json& asked) {
    const bool schema = asked.contains("schema");
    const bool regex = asked.contains("regex");
    if (schema && regex) throw std::invalid_argument("a schema and an expression");
    return schema ? "schema" : regex ? "regex" : "";
  }

  /// Made anew for each answer, as for a program's only one: its masks are no older.
  fd::AnyConstraint constraint(const Json& asked) {
    const fd::Tokenizer& tokenizer = models_.target.tokenizer();
    if (!pieces_) {
      pieces_ = std::make_shared<const fd::PieceTrie>(
          models_.target.config().n_vocab,
          [&](fd::TokenId token) { return std::string(tokenizer.piece(token)); });
    }
    return fd::GrammarConstraint(
        asked.contains("regex") ? fd::regex_grammar(asked.at("regex").get<std::string>())
                                : fd::json_schema_grammar(asked.at("schema").get<std::string>()),
        pieces_);
  }

  cli::Session& session(const Json& asked) {
    if (const int round = asked.value("round", 0); round != round_) {
      sessions_.clear();
      round_ = round;
    }
    const std::string speculation = asked.at("speculation");
    const bool model = asked.value("model", false);
    const std::string rule = asked.value("acceptance", "match");
    const std::string constrained = constrained_by(asked);
    const bool tree = asked.value("tree", !asked.contains("depth"));
    // A controller that learned at one temperature or depth knows nothing of another.
    auto& session =
        sessions_[Json{speculation, model, rule, asked.value("depth", fd::Options::kAutomatic),
                       asked.value("temperature", 0.0f), tree, constrained}
                      .dump()];
    if (!session && speculation == "wrong") session = wrong_session(cli::rule_named(rule));
    if (!session) {
      session = cli::make_session(models_, {.speculation = speculation,
                                            .rule = cli::rule_named(rule),
                                            .n_ctx = kContext,
                                            .with_model = model,
                                            .best_first = tree,
                                            .constrained = !constrained.empty()});
    }
    return *session;
  }

  std::unique_ptr<cli::Session> wrong_session(const cli::RuleKind& rule) {
    cli::Drafters<fd::Shape::kTree> drafters;
    drafters.add("wrong", bench::AlwaysWrong());
    return std::make_unique<
        cli::SessionIn<cli::Model, cli::Cache, fd::Shape::kTree, fd::AnyTreeAcceptance>>(
        *models_.target_on_cpu(), cli::Cache(models_.target.shape(), kContext), std::move(drafters),
        rule.make_for_trees());
  }

  cli::Models models_;
  std::shared_ptr<const fd::PieceTrie> pieces_;
  int round_ = 0;
  std::map<std::string, std::unique_ptr<cli::Session>> sessions_;
};

int run(const std::string& target, const std::string& draft, int threads) {
  Answers answers(target, draft, threads);
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = answers.reply(Json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string target;
  std::string draft;
  int threads = 0;
  CLI::App app("Answers on request: a JSON object a line.");
  app.add_option("-m,--model", target, "a file, or a name")->required();
  app.add_option("-d,--draft", draft, "a draft model");
  app.add_option("-t,--threads", threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(target, draft, threads); });
}
