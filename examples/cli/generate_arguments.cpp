#include "generate_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <foredraft/core/draft_tree.hpp>
#include <foredraft/io/chat_format.hpp>

#include "layer_list.hpp"
#include "model_path.hpp"
#include "prompts.hpp"
#include "survey.hpp"

namespace cli {

namespace {

constexpr int kMostDepth = fd::DraftTree::kMaxNodes - 1;  // the anchor is a node, too
constexpr int kMostInt = std::numeric_limits<int>::max();

/// All but raw, which is --raw.
std::vector<std::string> chat_format_names() {
  std::vector<std::string> names;
  for (const fd::ChatMarks& marks : fd::kChatMarks) {
    if (marks.format != fd::ChatFormat::kRaw) names.emplace_back(marks.name);
  }
  return names;
}

/// One of `types`, or some drafters with commas between, each once. @errors UsageError
void limit_list(CLI::Option* option, const std::vector<std::string>& types) {
  option->check([name = option->get_name(), types](const std::string& text) {
    const std::vector<std::string> parts = parts_of(text);
    // Rows and not names: an alias is no second drafter.
    std::vector<const DrafterKind*> seen;
    for (const std::string& part : parts) {
      const DrafterKind* kind = drafter_named(part);
      const bool known = std::ranges::find(types, part) != types.end();
      const bool alone = parts.size() == 1;
      if (known && (alone || (kind != nullptr && std::ranges::find(seen, kind) == seen.end()))) {
        seen.push_back(kind);
        continue;
      }
      std::string list;
      for (const std::string& type : types) list += (list.empty() ? "" : ", ") + type;
      throw UsageError(name + " " + text,
                       alone ? "one of " + list : "different drafters with commas between",
                       "--help says what they mean");
    }
    return std::string();
  });
}

/// fd::check, when the markers of a thinking part are not known yet: options are refused before a model
/// is loaded, and the markers are tokens of its vocabulary.
void check_without_vocabulary(const fd::Options& options) {
  fd::Options known = options;
  if (known.sampling.reasoning.tokens >= 0) {
    known.sampling.reasoning.open = {0};
    known.sampling.reasoning.close = {0};
  }
  fd::check(known);
}

}  // namespace

// What has no effect is refused, not ignored: whoever asks for it believes that it does something.
// The order matters: most checks ask `method` who drafts, samples count on from a seed that is set,
// and the draft model's sampling is made of the target's, which is complete then.
Method GenerateArguments::resolve() {
  Method method{.speculation = chosen_speculation(),
                .rule = acceptance ? rule_named(*acceptance) : rules().front(),
                .cache = {cache_format_named(cache_type_k), cache_format_named(cache_type_v)},
                .draft_cache = chosen_draft_cache(),
                .sinks = sinks};
  if (raw && !chat_format.empty()) {
    throw UsageError("--chat-format with --raw", "turns of a chat, or none",
                     "leave one of them out");
  }
  constraint.read();
  method.constrained = constraint.given();
  check_penalties();
  options.sampling.penalty_last_n = repeat_last_n.value_or(options.sampling.penalty_last_n);
  more_sampling.resolve(options);
  check_without_vocabulary(options);
  if (seed && options.sampling.temperature == 0.0f && !per_request) {
    throw UsageError("--seed at temperature 0", "a temperature above 0",
                     "the best token always wins, so the seed would have no effect: leave it out");
  }
  options.seed = seed.value_or(0);
  if ((n_max || n_nodes) && method.speculation == kNone) {
    throw UsageError(std::string(n_max ? "--spec-draft-n-max" : "--spec-draft-nodes") +
                         " with --spec-type " + method.speculation,
                     "a way to draft", "leave one of them out");
  }
  options.n_draft = n_max.value_or(fd::Options::kAutomatic);
  options.n_nodes = n_nodes.value_or(fd::Options::kAutomatic);
  if (acceptance) check_acceptance(method);
  check_samples();
  if (draft_temperature) {
    check_draft_temperature();
    method.draft_law = draft_law();
  }
  check_tree(method);
  if (tree != kAuto) method.tree = chosen_tree();
  method.best_first = tree == kAuto || !n_max;  // a fixed depth asks for a chain
  method.translation = chosen_translation();
  check_ngram_files(method);
  check_drafters_settings(method);
  method.lookup_min = lookup_min.value_or(0);
  method.ngram_sizes = ngram_sizes;
  method.layers = chosen_layers(method);
  check_state(method);
  check_shift();
  draft_load.check(!draft.empty());
  check_device(method);
  return method;
}

void GenerateArguments::check_device(const Method& method) const {
  if (draft_device && draft.empty()) {
    throw UsageError("--device-draft without a draft model", "a draft model", "add -md FILE");
  }
  machine.check_device(!draft.empty() && !draft_on_gpu());
  // Layers that draft are run by the processor: see Models::target_on_cpu.
  if (!machine.on_gpu() || !method.asks(*drafter_named(kSelf))) return;
  throw UsageError("--spec-type " + kSelf + " with --device cuda", "a target on the processor",
                   "leave one of them out");
}

std::string GenerateArguments::chosen_speculation() const {
  const bool with_model = !draft.empty();
  bool uses_model = spec_type == kAuto;
  std::string names;
  for (const std::string& part : parts_of(spec_type)) {
    const DrafterKind* kind = drafter_named(part);
    if (kind == nullptr) {  // auto or none, and nothing else: the option was held to that
      names = part;
      break;
    }
    uses_model = uses_model || kind->needs_model;
    // Never the alias: Method::asks compares names.
    names += (names.empty() ? "" : ",") + kind->name;
  }
  if (uses_model && spec_type != kAuto && !with_model) {
    throw UsageError("--spec-type " + spec_type + " without a draft model", "a draft model",
                     "add -md FILE");
  }
  if (with_model && !uses_model) {
    throw UsageError("-md with --spec-type " + spec_type + ", which uses no draft model",
                     "--spec-type " + kAuto, "leave one of them out");
  }
  return names;
}

fd::RowFormats GenerateArguments::chosen_draft_cache() const {
  if (draft.empty() && (draft_cache_type_k || draft_cache_type_v)) {
    throw UsageError(std::string("--cache-type-") + (draft_cache_type_k ? "k" : "v") +
                         "-draft without a draft model",
                     "a draft model", "add -md FILE");
  }
  return {cache_format_named(draft_cache_type_k.value_or(kCacheFormats[0])),
          cache_format_named(draft_cache_type_v.value_or(kCacheFormats[0]))};
}

/// Of options that are about some drafters, one of these has to take part.
void GenerateArguments::check_drafters_settings(const Method& method) const {
  const auto check = [&](bool given, const std::string& option, auto takes) {
    const auto one = [&](const DrafterKind& kind) { return kind.*takes && method.asks(kind); };
    if (!given || std::ranges::any_of(drafters(), one)) return;
    std::string fitting;
    for (const DrafterKind& kind : drafters()) {
      if (kind.*takes) fitting += (fitting.empty() ? "" : ", ") + kind.name;
    }
    throw UsageError(option + " with --spec-type " + method.speculation, "one of " + fitting,
                     "leave one of them out");
  };
  check(lookup_min.has_value(), "--spec-lookup-min", &DrafterKind::takes_lookup_min);
  check(ngram_sizes.n.has_value(), "--spec-ngram-size-n", &DrafterKind::takes_sizes);
  check(ngram_sizes.m.has_value(), "--spec-ngram-size-m", &DrafterKind::takes_sizes);
  check(ngram_sizes.hits.has_value(), "--spec-ngram-min-hits", &DrafterKind::takes_hits);
  check(!memory.empty(), "--spec-memory", &DrafterKind::memory);
}

std::vector<int> GenerateArguments::chosen_layers(const Method& method) const {
  if (layers.empty()) return {};
  if (!method.asks(*drafter_named(kSelf))) {
    throw UsageError("--spec-layers with --spec-type " + method.speculation,
                     "--spec-type " + kSelf + ", for which they are", "leave one of them out");
  }
  return parse_layers(layers);
}

void GenerateArguments::check_state(const Method& method) const {
  if (state.empty() || method.speculation != kNone) return;
  throw UsageError("--spec-state with --spec-type " + method.speculation, "a way to draft",
                   "leave one of them out");
}

void GenerateArguments::check_shift() const {
  if (keep && !context_shift) {
    throw UsageError("--keep without --context-shift, which it is for", "both, or none of them",
                     "add --context-shift");
  }
  if (context_shift && !trace.empty()) {
    throw UsageError("--trace with --context-shift", "rounds at positions of one text",
                     "leave one of them out");
  }
}

void GenerateArguments::check_sinks(const fd::ModelConfig& config) const {
  if (sinks == 0) return;
  const std::string found = "--sinks " + std::to_string(sinks);
  const auto has_window = [](const fd::LayerShape& layer) { return layer.attention.window > 0; };
  if (std::ranges::none_of(config.layers, has_window)) {
    throw UsageError(found + " with a model that has no sliding windows", "a model that has some",
                     "leave it out");
  }
  if (sinks > config.n_ctx) {
    throw UsageError(found, "at most the " + std::to_string(config.n_ctx) + " of the context",
                     "a few are enough: 4");
  }
}

void GenerateArguments::complete(const fd::Tokenizer& tokenizer) {
  fd::ChatTemplate chat;
  if (!raw) chat = chat_template(tokenizer, chat_format);
  options.constraint = constraint.constraint(tokenizer, raw ? nullptr : &chat);
  more_sampling.complete(options, tokenizer);
}

int GenerateArguments::context(int trained, std::size_t prompt_tokens) const {
  if (n_ctx > 0) return n_ctx;
  // -n -1 names no number: the default has to do then.
  const std::int64_t wanted =
      static_cast<std::int64_t>(prompt_tokens) + std::max(1, options.max_tokens);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, default_context(trained), trained));
}

ModelSettings GenerateArguments::models(const Method& method) const {
  const auto isa = machine.isa();
  return {.target = find_model(model),
          .draft = draft.empty() ? std::filesystem::path() : find_model(draft),
          .draft_options = draft_load.options(maps_draft()),
          .threads = machine.threads,
          .isa = isa,
          .n_ctx = n_ctx,
          .cache = method.cache,
          .draft_cache = method.draft_cache,
          .check =
              [this](const fd::ModelConfig& c) {
                check_context(n_ctx, c.n_ctx);
                check_sinks(c);
              },
          .keep_packed = machine.keep_packed,
          .sinks = method.sinks,
          .on_gpu = machine.on_gpu(),
          .draft_on_gpu = draft_on_gpu()};
}

void GenerateArguments::check_tree(const Method& method) const {
  if (tree.empty()) return;
  const std::string found = "--spec-tree " + tree;
  if (draft.empty()) {
    throw UsageError(found + " without a draft model, which drafts it", "a draft model",
                     "add -md FILE");
  }
  if (method.rule.make_for_trees == nullptr) {
    throw UsageError(
        found + " with --spec-acceptance " + method.rule.name + ", which verifies chains",
        "a rule for trees", "use " + rules().front().name);
  }
}

std::vector<int> GenerateArguments::chosen_tree() const {
  if (tree.empty()) return {};
  std::vector<int> children;
  for (const std::string& part : parts_of(tree)) {
    int n = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), n);
    const bool whole = error == std::errc() && end == part.data() + part.size();
    if (!whole || n < 1 || n > kMostDepth || children.size() == kMostDepth) {
      children.clear();
      break;
    }
    children.push_back(n);
  }
  if (children.empty()) {
    throw UsageError("--spec-tree " + tree, "auto, or numbers from 1 to 63 with commas between",
                     "3,2,1: three tokens, two behind each of them, one behind each of those");
  }
  return children;
}

fd::Translation GenerateArguments::chosen_translation() const {
  if (draft.empty() && translation != kTranslations[0]) {
    throw UsageError("--draft-translation without a draft model, which it is for", "a draft model",
                     "add -md FILE");
  }
  return static_cast<fd::Translation>(std::ranges::find(kTranslations, translation) -
                                      kTranslations.begin());
}

void GenerateArguments::check_ngram_files(const Method& method) const {
  const bool used = method.asks(*drafter_named("ngram-cache"));
  for (const auto& [name, file] : {std::pair{"--lookup-cache-static", &lookup_static},
                                   std::pair{"--lookup-cache-dynamic", &lookup_dynamic}}) {
    if (file->empty() || used) continue;
    throw UsageError(std::string(name) + " with --spec-type " + method.speculation,
                     "--spec-type " + kAuto + " or ngram-cache", "leave one of them out");
  }
}

void GenerateArguments::check_penalties() const {
  if (repeat_last_n && !options.sampling.penalises()) {
    throw UsageError("--repeat-last-n without a penalty", "a penalty that looks back",
                     "add --repeat-penalty, --presence-penalty or --frequency-penalty");
  }
  if (repeat_last_n == 0) {
    throw UsageError("--repeat-last-n 0 with a penalty", "tokens to look back on",
                     "-1 looks back on all of them");
  }
}

void GenerateArguments::check_acceptance(const Method& method) const {
  const std::string found = "--spec-acceptance " + method.rule.name;
  if (method.speculation == kNone) {
    throw UsageError(found + " with --spec-type " + method.speculation, "drafts to accept",
                     "leave one of them out");
  }
  if (options.sampling.temperature == 0.0f && !method.rule.greedy && !per_request) {
    throw UsageError(found + " at temperature 0", "a temperature above 0, or " + rules()[0].name,
                     "the target's best token always wins, so every rule accepts the same");
  }
}

void GenerateArguments::check_samples() const {
  if (samples == 1) return;
  const std::string found = "--samples " + std::to_string(samples);
  if (options.sampling.temperature == 0.0f) {
    throw UsageError(found + " at temperature 0", "a temperature above 0",
                     "every text would be the same: set --temp");
  }
  const auto more = static_cast<std::uint64_t>(samples - 1);
  if (options.seed > std::numeric_limits<std::uint64_t>::max() - more) {
    throw UsageError(found + " behind --seed " + std::to_string(options.seed),
                     "seeds up to 2^64 - 1", "begin with a smaller seed");
  }
}

void GenerateArguments::check_draft_temperature() const {
  const std::string found = "--draft-temp";
  if (draft.empty()) {
    throw UsageError(found + " without a draft model, which it is for", "a draft model",
                     "add -md FILE");
  }
  if (!(*draft_temperature >= 0.0f) || std::isinf(*draft_temperature)) {
    throw UsageError(found + " " + std::to_string(*draft_temperature), "a finite value >= 0",
                     "0 drafts the draft model's best token");
  }
  if (options.sampling.temperature == 0.0f && !per_request) {
    throw UsageError(found + " at temperature 0", "a temperature above 0",
                     "only the draft model's best token can be the target's best: leave it out");
  }
}

fd::SamplingOptions GenerateArguments::draft_law() const {
  fd::SamplingOptions law = options.sampling;
  law.temperature = *draft_temperature;
  law.reasoning = {};  // q need not follow it
  if (law.greedy()) {  // the best token is left by any cut, and cuts are refused there
    law = law.ranking(0);
    law.temperature = 0.0f;
  }
  return law;
}

void GenerateArguments::add_to(CLI::App& command) {
  add_model_option(command, model);
  prompt.add_to(command, "the prompt");
  add_raw(command);
  add_turns(command);
  add_limits(command);
  add_shift(command);
  add_number(command, "--samples N", samples, 1, 1 << 20,
             "N texts with the seeds SEED, SEED + 1, ... behind one prompt, which is read once; "
             "with --json one object a line [1]");
  add_number(command, "--logprobs K", options.logprobs, 0, kMostInt,
             "natural log probability of every token, and of the K most probable ones, before "
             "temperature and all other transforms: with --json in \"logprobs\", else in a "
             "table below the text");
  constraint.add_to(command);
  add_method(command);
  add_learned_files(command);
  add_trace(command);
  require_text(add_value(command, "--prompt-cache FILE", prompt_cache,
                         "what was computed for the prompt: read where it exists, so that only "
                         "what is new in this prompt is read, and written behind the prompt"));
  machine.add_to(command);
  machine.add_device(command);
  add_json_flag(command, json);
}

void GenerateArguments::add_to_batch(CLI::App& command) {
  add_model_option(command, model);
  add_raw(command);
  add_turns(command);
  add_limits(command);
  constraint.add_to(command);
  add_method(command);
  machine.add_to(command);
  machine.add_device(command);
}

void GenerateArguments::add_to_server(CLI::App& command) {
  per_request = true;
  options.max_tokens = -1;  // as other servers have it
  add_model_option(command, model);
  add_turns(command);
  add_limits(command);
  add_method(command);
  machine.add_to(command);
  machine.add_device(command);
}

void GenerateArguments::add_to_chat(CLI::App& command) {
  // An answer takes what it takes. Set before add_limits(), which tells the default.
  options.max_tokens = -1;
  add_model_option(command, model);
  add_turns(command);
  add_limits(command);
  add_shift(command);
  constraint.add_to(command);
  add_method(command);
  add_learned_files(command);
  add_trace(command);
  machine.add_to(command);
  machine.add_device(command);
}

void GenerateArguments::add_method(CLI::App& command) {
  add_sampling(command);
  add_penalties(command);
  more_sampling.add_to(command, options);
  add_speculation(command);
}

void GenerateArguments::add_raw(CLI::App& command) {
  command.add_flag("--raw", raw,
                   "no chat format: the prompt as it is, behind BOS where the model asks for it; "
                   "names of special tokens in it are those tokens, with a chat format, too");
}

void GenerateArguments::add_trace(CLI::App& command) {
  require_text(add_value(command, "--trace FILE", trace,
                         "write what each round drafted and kept to FILE, one JSON object a line; "
                         "'foredraft report FILE' makes a page of it"));
}

void GenerateArguments::add_turns(CLI::App& command) {
  add_choice(command, "--chat-format NAME", chat_format, chat_format_names(),
             "turns of a chat, for models whose file has no template, or one that is not known: " +
                 fd::chat_format::names() + " [what the template says]");
}

void GenerateArguments::add_limits(CLI::App& command) {
  add_number(command, "-n,--predict,--n-predict N", options.max_tokens, -1, kMostInt,
             "most tokens to generate; -1: until the context is full [" +
                 std::to_string(options.max_tokens) + "]");
  add_number(command, "-c,--ctx-size N", n_ctx, 0, kMostInt,
             "context in tokens; 0: 4096 at most, more if prompt and -n need it [0]");
  add_caches(command);
  command.add_flag("--ignore-eos", options.ignore_end, "go on after an end token");
}

void GenerateArguments::add_shift(CLI::App& command) {
  command.add_flag("--context-shift", context_shift,
                   "where the context is full, keep its first tokens and the newest half of the "
                   "others, read them again and go on; the text is another than with a longer "
                   "context");
  add_number(command, "--keep N", keep, 0, kMostInt,
             "first tokens that --context-shift keeps [4, or all before the first message]");
}

void GenerateArguments::add_caches(CLI::App& command) {
  const auto add = [&](const char* name, auto& type, const std::string& of) {
    add_choice(command, name + std::string(" TYPE"), type, kCacheFormats,
               "storage of " + of +
                   ": f16, f32, bf16, or q8_0: half the memory of f16, less precise "
                   "[" +
                   kCacheFormats[0] + "]");
  };
  add("--cache-type-k", cache_type_k, "the target's keys");
  add("--cache-type-v", cache_type_v, "the target's values");
  add("--cache-type-k-draft", draft_cache_type_k, "the draft model's keys");
  add("--cache-type-v-draft", draft_cache_type_v, "the draft model's values");
  add_number(command, "--sinks N", sinks, 0, kMostInt,
             "first tokens that layers with a sliding window see besides it; the text is another "
             "than without [0]");
}

void GenerateArguments::add_sampling(CLI::App& command) {
  add_value(command, "--temp T", options.sampling.temperature,
            "temperature; 0: always the best token [0]");
  add_number(command, "--top-k K", options.sampling.top_k, 0, kMostInt,
             "keep the K most probable tokens; 0: all [0]");
  add_value(command, "--top-p P", options.sampling.top_p,
            "keep the fewest tokens that reach this probability [1]");
  add_value(command, "--min-p P", options.sampling.min_p,
            "keep tokens of this probability relative to the best [0]");
  add_number(command, "-s,--seed SEED", seed, 0, std::numeric_limits<std::uint64_t>::max(),
             "one seed, one text with --spec-acceptance match, however it is drafted; with other "
             "rules a fixed depth repeats it in a fresh run; not at temperature 0 [0]");
}

void GenerateArguments::add_penalties(CLI::App& command) {
  add_value(command, "--repeat-penalty X", options.sampling.repeat_penalty,
            "divides the logits above 0 of tokens that occurred, multiplies those below [1]");
  add_value(command, "--presence-penalty X", options.sampling.presence_penalty,
            "taken off the logits of tokens that occurred [0]");
  add_value(command, "--frequency-penalty X", options.sampling.frequency_penalty,
            "taken off once for each time that a token occurred [0]");
  add_number(command, "--repeat-last-n N", repeat_last_n, -1, kMostInt,
             "tokens that penalties look back on, the prompt included; -1: all [" +
                 std::to_string(options.sampling.penalty_last_n) + "]");
}

void GenerateArguments::add_speculation(CLI::App& command) {
  std::vector<std::string> types{kAuto, kNone};
  std::vector<std::string> rule_names;
  std::string in_auto;
  std::string type_list = kNone;
  std::string rule_list;
  const auto append = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (const DrafterKind& kind : drafters()) {
    types.push_back(kind.name);
    if (!kind.alias.empty()) types.push_back(kind.alias);
    append(type_list, kind.name + (kind.alias.empty() ? "" : " (or " + kind.alias + ")"));
    if (kind.in_auto) append(in_auto, kind.name);
  }
  type_list = kAuto + " (in each round what pays of " + in_auto + "), " + type_list;
  for (const RuleKind& kind : rules()) {
    rule_names.push_back(kind.name);
    append(rule_list, kind.name + (kind.about.empty() ? "" : " (" + kind.about + ")"));
  }
  limit_list(add_value(command, "--spec-type TYPE", spec_type,
                       type_list + "; several of the drafters with commas between [" + kAuto + "]"),
             types);
  add_number(command, "--spec-draft-n-max N", n_max, 1, kMostDepth,
             "drafts N tokens deep, 1 to " + std::to_string(kMostDepth) +
                 ", whether it pays or not [as many as pay]");
  add_number(command, "--spec-draft-nodes N", n_nodes, 1, kMostDepth,
             "drafts at most N tokens on all branches together, 1 to " +
                 std::to_string(kMostDepth) + " [as many as pay]");
  add_choice(command, "--spec-acceptance RULE", acceptance, rule_names,
             rule_list + " [" + rules().front().name + "]");
  add_draft_model(command);
  add_number(command, "--spec-lookup-min N", lookup_min, 1, 32,
             "tokens of the shortest match that lookup drafts from [2]");
  add_ngram_sizes(command);
  require_text(
      add_value(command, "--spec-layers LIST", layers,
                "layers of the target that draft under --spec-type self, such as 0-7,20-27 "
                "[all but the second quarter]"));
  add_static_ngrams(command);
}

void GenerateArguments::add_draft_model(CLI::App& command) {
  require_text(add_value(command, "--model-draft FILE|NAME", draft,
                         "draft model, a file or a name; best with the target's tokenizer"));
  add_value(command, "--draft-temp T", draft_temperature,
            "temperature of the draft model; 0: it drafts its best token [as --temp]");
  require_text(add_value(
      command, "--spec-tree LIST", tree,
      "shape of the draft model's drafts: children of a node by depth, such as 3,2,1,1; auto: "
      "a tree where it is unsure, a chain where it is sure or its tokens are drawn "
      "[auto; 1,1,1,... at a fixed depth]"));
  add_choice(command, "--draft-translation HOW", translation, kTranslations,
             "of a draft model with another tokenizer: intersection (tokens that both have), "
             "realignment (its text in the target's tokens), auto (the latter where it drafts its "
             "best tokens) [" +
                 kTranslations[0] + "]");
  draft_load.add_to(command);
  add_choice(command, "--device-draft NAME", draft_device, kDevices,
             "where the draft model runs, as --device [" + kDevices[0] + "]");
}

void GenerateArguments::add_ngram_sizes(CLI::App& command) {
  add_number(
      command, "--spec-ngram-size-n N", ngram_sizes.n, 1, 1024,
      "tokens that must match before ngram-simple, ngram-map-k and ngram-map-k4v draft [12], "
      "and ngram-mod [16]");
  add_number(command, "--spec-ngram-size-m M", ngram_sizes.m, 1, kMostDepth,
             "tokens that these draft at most [48], and ngram-mod [63]");
  add_number(command, "--spec-ngram-min-hits N", ngram_sizes.hits, 1, 64,
             "times that a match must have occurred before ngram-map-k4v drafts from it [1]");
}

void GenerateArguments::add_static_ngrams(CLI::App& command) {
  require_text(add_value(command, "--lookup-cache-static FILE", lookup_static,
                         "pairs of tokens of a corpus, which 'foredraft ngram build' counted; for "
                         "ngram-cache"));
}

void GenerateArguments::add_learned_files(CLI::App& command) {
  std::string remembering;
  for (const DrafterKind& kind : drafters()) {
    if (kind.memory != nullptr) remembering += (remembering.empty() ? "" : ", ") + kind.name;
  }
  require_text(add_value(command, "--spec-state FILE", state,
                         "what the controller learns of costs and acceptance: read where it "
                         "exists, and written behind the last text"));
  require_text(add_value(command, "--spec-memory FOLDER", memory,
                         "what drafters learn from the texts, likewise: " + remembering));
  require_text(
      add_value(command, "--lookup-cache-dynamic FILE", lookup_dynamic,
                "what ngram-cache learns from the texts: read where it exists, and written "
                "behind the last text"));
}

}  // namespace cli
