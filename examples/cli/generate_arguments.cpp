#include "generate_arguments.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include <foredraft/core/draft_tree.hpp>

namespace cli {

namespace {

// A draft model pays for every token it drafts, a lookup does not. A lookup drafts no more than its
// match is worth, so a high limit costs it little.
constexpr int kDepthWithModel = 8;
constexpr int kDepthWithLookup = 15;
constexpr int kMostDepth = fd::DraftTree::kMaxNodes - 1;
constexpr int kMostInt = std::numeric_limits<int>::max();

}  // namespace

std::string_view name_of(Speculation speculation) {
  switch (speculation) {
    case Speculation::kNone: return "none";
    case Speculation::kLookup: return "lookup";
    case Speculation::kDraft: return "draft";
  }
  return "unknown";
}

Speculation GenerateArguments::resolve() {
  const Speculation chosen = resolve_type();
  prompt.check();
  if (repeat_last_n && !options.sampling().penalises()) {
    throw UsageError("--repeat-last-n without a penalty", "a penalty that looks back",
                     "add --repeat-penalty, --presence-penalty or --frequency-penalty");
  }
  if (repeat_last_n == 0) {
    throw UsageError("--repeat-last-n 0 with a penalty", "tokens to look back on",
                     "-1 looks back on all of them");
  }
  options.penalty_last_n = repeat_last_n.value_or(options.penalty_last_n);
  fd::check(options);
  if (cache_type_k != cache_type_v) {
    throw UsageError("keys in " + cache_type_k + " and values in " + cache_type_v,
                     "one type for both", "give --cache-type-k and --cache-type-v alike");
  }
  if (seed && options.temperature == 0.0f) {
    throw UsageError("--seed at temperature 0", "a temperature above 0",
                     "the best token always wins, so the seed would have no effect: leave it out");
  }
  options.seed = seed.value_or(0);
  if (n_max && chosen == Speculation::kNone) {
    throw UsageError("--spec-draft-n-max with --spec-type none", "a way to draft",
                     "leave one of them out");
  }
  if (acceptance) check_acceptance(chosen);
  check_samples();
  if (draft_temperature) check_draft_temperature(chosen);
  draft_load.check(chosen == Speculation::kDraft);
  return chosen;
}

void GenerateArguments::check_acceptance(Speculation chosen) const {
  const std::string found = "--spec-acceptance " + *acceptance;
  if (chosen == Speculation::kNone) {
    throw UsageError(found + " with --spec-type none", "drafts to accept", "leave one of them out");
  }
  if (options.temperature == 0.0f && rule() != AcceptanceRule::kMatch) {
    throw UsageError(found + " at temperature 0", "a temperature above 0, or match",
                     "the target's best token always wins, so every rule accepts the same");
  }
}

void GenerateArguments::check_samples() const {
  if (samples == 1) return;
  const std::string found = "--samples " + std::to_string(samples);
  if (options.temperature == 0.0f) {
    throw UsageError(found + " at temperature 0", "a temperature above 0",
                     "every text would be the same: set --temp");
  }
  const auto more = static_cast<std::uint64_t>(samples - 1);
  if (options.seed > std::numeric_limits<std::uint64_t>::max() - more) {
    throw UsageError(found + " behind --seed " + std::to_string(options.seed),
                     "seeds up to 2^64 - 1", "begin with a smaller seed");
  }
}

void GenerateArguments::check_draft_temperature(Speculation chosen) const {
  const std::string found = "--draft-temp";
  if (chosen != Speculation::kDraft) {
    throw UsageError(found + " without a draft model, which it is for", "a draft model",
                     "add -md FILE");
  }
  if (!(*draft_temperature >= 0.0f) || std::isinf(*draft_temperature)) {
    throw UsageError(found + " " + std::to_string(*draft_temperature), "a finite value >= 0",
                     "0 drafts the draft model's best token");
  }
  if (options.temperature == 0.0f) {
    throw UsageError(found + " at temperature 0", "a temperature above 0",
                     "only the draft model's best token can be the target's best: leave it out");
  }
}

AcceptanceRule GenerateArguments::rule() const {
  const std::string name = rule_name();
  if (name == "match") return AcceptanceRule::kMatch;
  return name == "block" ? AcceptanceRule::kBlock : AcceptanceRule::kRejection;
}

Speculation GenerateArguments::resolve_type() const {
  const bool with_model = !draft.empty();
  if (speculation.empty()) return with_model ? Speculation::kDraft : Speculation::kLookup;
  if (speculation == "draft" || speculation == "draft-simple") {
    if (!with_model) {
      throw UsageError("--spec-type " + speculation + " without a draft model", "a draft model",
                       "add -md FILE");
    }
    return Speculation::kDraft;
  }
  if (with_model) {
    throw UsageError("-md with --spec-type " + speculation + ", which uses no draft model",
                     "--spec-type draft", "leave one of them out");
  }
  return speculation == "none" ? Speculation::kNone : Speculation::kLookup;
}

int GenerateArguments::depth(Speculation chosen) const {
  switch (chosen) {
    case Speculation::kNone: return 0;
    case Speculation::kLookup: return n_max.value_or(kDepthWithLookup);
    case Speculation::kDraft: break;
  }
  return n_max.value_or(kDepthWithModel);
}

void GenerateArguments::add_to(CLI::App& command) {
  add_model_option(command, model);
  prompt.add_to(command, "the prompt");
  command.add_flag("--raw", raw,
                   "no chat format: the prompt as it is, behind BOS where the model asks for it; "
                   "names of special tokens in it are those tokens, with a chat format, too");
  limit(command.add_option("-n,--predict,--n-predict", options.max_tokens,
                           "most tokens to generate; -1: until the context is full [" +
                               std::to_string(options.max_tokens) + "]"),
        -1, kMostInt)
      ->type_name("N");
  limit(command.add_option("-c,--ctx-size", n_ctx,
                           "context in tokens; 0: 4096 at most, more if prompt and -n need it [0]"),
        0, kMostInt)
      ->type_name("N");
  for (const auto& [name, type, of] : {std::tuple{"--cache-type-k", &cache_type_k, "keys"},
                                       std::tuple{"--cache-type-v", &cache_type_v, "values"}}) {
    limit(
        command.add_option(name, *type,
                           std::string("storage of the target's ") + of +
                               ": f16, or q8_0: half the memory, less precise; one for both [f16]"),
        {"f16", "q8_0"})
        ->type_name("TYPE");
  }
  command.add_flag("--ignore-eos", options.ignore_end, "go on after an end token");
  limit(command.add_option(
            "--samples", samples,
            "N texts with the seeds SEED, SEED + 1, ... behind one prompt, which is read once; "
            "with --json one object a line [1]"),
        1, 1 << 20)
      ->type_name("N");
  limit(command.add_option(
            "--logprobs", options.logprobs,
            "natural log probability of every token, and of the K most probable ones, before "
            "temperature and all other transforms: with --json in \"logprobs\", else in a "
            "table below the text"),
        0, kMostInt)
      ->type_name("K");
  add_sampling(command);
  add_penalties(command);
  add_speculation(command);
  machine.add_to(command);
  add_json_flag(command, json);
}

void GenerateArguments::add_sampling(CLI::App& command) {
  command.add_option("--temp", options.temperature, "temperature; 0: always the best token [0]")
      ->type_name("T");
  limit(command.add_option("--top-k", options.top_k, "keep the K most probable tokens; 0: all [0]"),
        0, kMostInt)
      ->type_name("K");
  command
      .add_option("--top-p", options.top_p,
                  "keep the fewest tokens that reach this probability [1]")
      ->type_name("P");
  command
      .add_option("--min-p", options.min_p,
                  "keep tokens of this probability relative to the best [0]")
      ->type_name("P");
  limit(command.add_option(
            "-s,--seed", seed,
            "one seed, one text with --spec-acceptance match, however it is drafted; not at "
            "temperature 0 [0]"),
        0, std::numeric_limits<std::uint64_t>::max())
      ->type_name("SEED");
}

void GenerateArguments::add_penalties(CLI::App& command) {
  command
      .add_option("--repeat-penalty", options.repeat_penalty,
                  "divides the logits above 0 of tokens that occurred, multiplies those below [1]")
      ->type_name("X");
  command
      .add_option("--presence-penalty", options.presence_penalty,
                  "taken off the logits of tokens that occurred [0]")
      ->type_name("X");
  command
      .add_option("--frequency-penalty", options.frequency_penalty,
                  "taken off once for each time that a token occurred [0]")
      ->type_name("X");
  limit(command.add_option("--repeat-last-n", repeat_last_n,
                           "tokens that penalties look back on, the prompt included; -1: all [" +
                               std::to_string(options.penalty_last_n) + "]"),
        -1, kMostInt)
      ->type_name("N");
}

void GenerateArguments::add_speculation(CLI::App& command) {
  require_text(
      command.add_option("--model-draft", draft, "draft model, a file or a name; same vocabulary"))
      ->type_name("FILE|NAME");
  const std::vector<std::string> types = {"none", "lookup", "draft", "draft-simple",
                                          "ngram-simple"};
  limit(command.add_option("--spec-type", speculation,
                           "none, lookup (or ngram-simple), draft (or draft-simple) "
                           "[draft with -md, else lookup]"),
        types)
      ->type_name("TYPE");
  limit(command.add_option("--spec-draft-n-max", n_max,
                           "most tokens drafted at once, 1 to " + std::to_string(kMostDepth) +
                               " [" + std::to_string(kDepthWithModel) + " with a draft model, " +
                               std::to_string(kDepthWithLookup) + " with lookup]"),
        1, kMostDepth)
      ->type_name("N");
  limit(command.add_option(
            "--spec-acceptance", acceptance,
            "match (a seed gives one text, drafted or not), rejection, or block (as rejection, "
            "but of whole drafts: it keeps at least as many tokens) [match]"),
        {"match", "rejection", "block"})
      ->type_name("RULE");
  command
      .add_option("--draft-temp", draft_temperature,
                  "temperature of the draft model; 0: it drafts its best token [as --temp]")
      ->type_name("T");
  draft_load.add_to(command);
}

}  // namespace cli
