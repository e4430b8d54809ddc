#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <foredraft/core/error.hpp>

#include "commands.hpp"
#include "generate_arguments.hpp"
#include "interrupt.hpp"
#include "logprob_report.hpp"
#include "model_path.hpp"
#include "ngram_file.hpp"
#include "output.hpp"
#include "prompts.hpp"
#include "report.hpp"
#include "session.hpp"
#include "state_file.hpp"
#include "survey.hpp"
#include "terminal.hpp"
#include "trace_file.hpp"

namespace cli {

namespace {

/// -c, or a default with room for the prompt and what is asked for, as far as the model reaches.
int resolve_context(const GenerateArguments& a, int trained, std::size_t prompt) {
  if (a.n_ctx > 0) return a.n_ctx;
  const std::int64_t wanted = static_cast<std::int64_t>(prompt) + std::max(1, a.options.max_tokens);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, default_context(trained), trained));
}

/// What --lookup-cache-static and --lookup-cache-dynamic name. The latter may not exist yet.
NgramTables read_tables(const GenerateArguments& a, const fd::Tokenizer& tokenizer) {
  NgramTables tables;
  if (a.lookup_static.empty() && a.lookup_dynamic.empty()) return tables;
  const fd::VocabularyFingerprint vocabulary = fingerprint(tokenizer);
  if (!a.lookup_static.empty()) {
    tables.fixed =
        std::make_shared<const fd::NgramCounts>(read_ngrams(a.lookup_static, vocabulary));
  }
  if (!a.lookup_dynamic.empty()) {
    const bool there = std::filesystem::exists(a.lookup_dynamic);
    tables.dynamic = std::make_shared<fd::SharedNgramCounts>(
        there ? read_ngrams(a.lookup_dynamic, vocabulary) : fd::NgramCounts());
  }
  return tables;
}

/// Writes texts as they come, accepted draft tokens in colour.
class Printer {
 public:
  /// A line above a text. It waits for the text: where an error comes instead, stdout stays empty.
  void begin(const std::string& header) {
    header_ = (begun_ ? "\n" : "") + header;
    begun_ = ends_line_ = true;
  }
  void operator()(const fd::Emitted& token) {
    if (token.text.empty()) return;
    const std::string text = terminal_ ? visible(token.text) : token.text;
    write(colour_ && token.from_draft ? std::string(kCyan) + text + std::string(kPlain) : text);
    ends_line_ = text.back() == '\n';
  }
  /// The prompt of the shell, and the statistics, begin on a line of their own.
  void finish() { write(ends_line_ ? "" : "\n"); }

 private:
  void write(const std::string& text) { write_out(std::exchange(header_, {}) + text); }

  bool terminal_ = is_terminal(STDOUT_FILENO);
  bool colour_ = wants_colour(STDOUT_FILENO);
  bool ends_line_ = false;
  bool begun_ = false;
  std::string header_;
};

/// All texts, one behind the other, on stdout. A cancel ends all of them.
Summary write_texts(Session& session, std::span<const fd::TokenId> prompt, const RunFacts& facts,
                    TraceFile& trace) {
  const fd::Tokenizer& tokenizer = facts.models.target.tokenizer();
  const GenerateArguments& a = facts.asked;
  fd::Options options = a.options;
  options.cancelled = [] { return InterruptGuard::interrupted(); };
  Printer print;
  Summary summary;
  for (int sample = 0; sample < a.samples && !summary.cancelled(); ++sample, ++options.seed) {
    if (a.samples > 1) {
      print.begin(formatted("--- sample %d of %d, seed %s ---\n", sample + 1, a.samples,
                            std::to_string(options.seed).c_str()));
    }
    trace.begin(prompt, options);
    fd::Result result = session.generate(prompt, options, [&](const fd::Emitted& token) {
      if (!a.json) print(token);
    });
    trace.end(result);
    // The decoder does not count the prompt's last token, which the first round of each text
    // forwards. For the user the prompt is read once, and all of it.
    if (sample > 0) ++result.stats.reused_tokens;
    summary.add(result);
    if (a.json) {
      print_json(to_json(result, options.seed, facts));
    } else {
      print.finish();
      if (a.options.logprobs >= 0) write_out("\n" + logprob_table(tokenizer, result));
    }
  }
  return summary;
}

int run(GenerateArguments& a) {
  // What can be refused is refused before the models are read, which may take a while.
  Method method = a.resolve();
  const auto isa = a.machine.isa();
  const auto target = find_model(a.model);
  const auto draft = a.draft.empty() ? std::filesystem::path() : find_model(a.draft);
  std::string text = a.prompt.read();
  if (text.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a prompt without text", "at least one character",
                    "give it with -p TEXT or -f FILE");
  }
  TraceFile trace(a.trace);
  Models models({.target = target,
                 .draft = draft,
                 .draft_options = a.draft_load.options(a.machine.keep_packed),
                 .threads = a.machine.threads,
                 .isa = isa,
                 .n_ctx = a.n_ctx,
                 .cache = method.cache,
                 .draft_cache = method.draft_cache,
                 .check = [&](const fd::ModelConfig& c) { check_context(a.n_ctx, c.n_ctx); },
                 .keep_packed = a.machine.keep_packed});
  const auto prompt =
      encode_prompt(models.target.tokenizer(), std::move(text), a.raw, a.chat_format);
  method.n_ctx = resolve_context(a, models.target.config().n_ctx, prompt.size());
  method.ngrams = read_tables(a, models.target.tokenizer());

  const RunFacts facts{a, method, models};
  Summary summary;
  {
    const InterruptGuard guard;
    const auto session = make_session(models, method);
    StateFile state(a.state, models, {target, draft, a.draft_load, a.machine.keep_packed, method});
    state.give_to(*session);
    if (const auto note = models.note(); !note.empty()) std::cerr << "foredraft: " << note << '\n';
    trace.describe(
        [&](fd::TokenId token) {
          return std::string(models.target.tokenizer().piece(token, true));
        },
        session->drafter_names());
    summary = write_texts(*session, prompt, facts, trace);
    session->learn();
    state.keep(*session);
  }
  if (method.ngrams.dynamic) {
    method.ngrams.dynamic->read([&](const fd::NgramCounts& counts) {
      write_ngrams(a.lookup_dynamic, counts, fingerprint(models.target.tokenizer()));
    });
  }
  if (!a.json) std::cerr << '\n' << summary.text(facts);
  return summary.cancelled() ? kExitInterrupt : 0;
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
