#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <foredraft/core/error.hpp>
#include <foredraft/io/chat_format.hpp>

#include "commands.hpp"
#include "generate_arguments.hpp"
#include "interrupt.hpp"
#include "logprob_report.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "report.hpp"
#include "survey.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

std::vector<fd::TokenId> encode_prompt(const fd::Tokenizer& tokenizer, std::string text, bool raw) {
  if (!raw) {
    const auto chat = fd::recognize_chat_template(tokenizer.vocabulary().chat_template());
    const fd::ChatMessage message{"user", std::move(text)};
    text = fd::format_chat(chat, {&message, 1});
  }
  return tokenizer.encode(text, {.add_bos = true, .parse_special = true});
}

/// -c, or a default with room for the prompt and what is asked for, as far as the model reaches.
int resolve_context(const GenerateArguments& a, int trained, std::size_t prompt) {
  if (a.n_ctx > 0) return a.n_ctx;
  const std::int64_t wanted = static_cast<std::int64_t>(prompt) + std::max(1, a.options.max_tokens);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, default_context(trained), trained));
}

/// Writes the text as it comes, accepted draft tokens in colour.
class Printer {
 public:
  /// A line above a text.
  void begin(const std::string& header) {
    write_out((begun_ ? "\n" : "") + header + "\n");
    begun_ = true;
    ends_line_ = true;
  }
  void operator()(const fd::Emitted& token) {
    if (token.text.empty()) return;
    const std::string text = terminal_ ? visible(token.text) : token.text;
    write_out(colour_ && token.from_draft ? std::string(kCyan) + text + std::string(kPlain) : text);
    ends_line_ = text.back() == '\n';
  }
  /// The prompt of the shell, and the statistics, begin on a line of their own.
  void finish() {
    if (!ends_line_) write_out("\n");
  }

 private:
  bool terminal_ = is_terminal(STDOUT_FILENO);
  bool colour_ = wants_colour(STDOUT_FILENO);
  bool ends_line_ = false;
  bool begun_ = false;
};

std::string header(int sample, int samples, std::uint64_t seed) {
  return "--- sample " + std::to_string(sample + 1) + " of " + std::to_string(samples) + ", seed " +
         std::to_string(seed + static_cast<std::uint64_t>(sample)) + " ---";
}

int run(GenerateArguments& a) {
  const Speculation speculation = a.resolve();
  const auto isa = a.machine.isa();
  const auto model = find_model(a.model);
  const auto draft = a.draft.empty() ? std::filesystem::path() : find_model(a.draft);
  std::string text = a.prompt.read();
  if (text.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a prompt without text", "at least one character",
                    "give it with -p TEXT or -f FILE");
  }
  Engine engine({.model = model,
                 .draft = draft,
                 .draft_options = a.draft_load.options(),
                 .threads = a.machine.threads,
                 .isa = isa,
                 .n_ctx = a.n_ctx,
                 .cache_type = a.cache_type(),
                 .check =
                     [&](const fd::ModelConfig& c) {
                       check_context(a.n_ctx, c.n_ctx);
                       if (a.cache_type() == CacheType::kQ8_0) check_quantized_cache(c.d_head);
                     },
                 .packed_cache = a.machine.packed_cache});
  const auto prompt = encode_prompt(engine.tokenizer(), std::move(text), a.raw);
  const int n_ctx = resolve_context(a, engine.config().n_ctx, prompt.size());

  a.options.n_draft = a.depth(speculation);
  a.options.cancelled = [] { return InterruptGuard::interrupted(); };
  const RunFacts facts{.seed = a.options.seed,
                       .speculation = std::string(name_of(speculation)),
                       .acceptance = a.rule_name(),
                       .n_max = a.options.n_draft,
                       .n_ctx = n_ctx,
                       .cache_type = a.cache_type_k,
                       .threads = engine.threads(),
                       .isa = std::string(engine.isa()),
                       .load_seconds = engine.load_seconds(),
                       .logprobs = a.options.logprobs >= 0,
                       .draft_temperature = a.draft_temperature,
                       .draft_load = a.draft_load};
  Summary summary;
  Printer print;
  fd::FinishReason end = fd::FinishReason::kLength;
  const Listener listener{.begin =
                              [&](int sample) {
                                if (!a.json && a.samples > 1)
                                  print.begin(header(sample, a.samples, a.options.seed));
                              },
                          .emit =
                              [&](const fd::Emitted& token) {
                                if (!a.json) print(token);
                              },
                          .done =
                              [&](int sample, const fd::Result& result) {
                                end = result.finish_reason;
                                summary.add(result);
                                if (a.json) {
                                  print_json(to_json(result, sample, facts));
                                  return;
                                }
                                print.finish();
                                if (facts.logprobs)
                                  write_out("\n" + logprob_table(engine.tokenizer(), result));
                              }};
  {
    const InterruptGuard guard;
    engine.generate(prompt, a.options,
                    {speculation, a.rule(), n_ctx, a.cache_type(), a.draft_temperature}, a.samples,
                    listener);
  }
  if (!a.json) std::cerr << '\n' << summary.text(facts);
  return end == fd::FinishReason::kCancelled ? kExitInterrupt : 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "generate", "Answer a prompt, speculatively unless told otherwise. Ctrl-C ends the text.");
  const auto a = std::make_shared<GenerateArguments>();
  a->add_to(*command);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
