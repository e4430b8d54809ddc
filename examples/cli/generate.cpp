#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>

#include "commands.hpp"
#include "generate_arguments.hpp"
#include "interrupt.hpp"
#include "learned_files.hpp"
#include "logprob_report.hpp"
#include "ngram_file.hpp"
#include "output.hpp"
#include "printer.hpp"
#include "prompts.hpp"
#include "report.hpp"
#include "session.hpp"
#include "snapshot_file.hpp"
#include "state_file.hpp"
#include "survey.hpp"
#include "terminal.hpp"
#include "trace_file.hpp"

namespace cli {

namespace {

/// All texts, one behind the other, on stdout. A cancel ends all of them.
Summary write_texts(Session& session, std::span<const fd::TokenId> prompt,
                    const std::optional<fd::Stats>& read, const RunFacts& facts, TraceFile& trace) {
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
    if (sample == 0 && read) {  // before, for --prompt-cache
      result.stats.reused_tokens = read->reused_tokens;
      result.stats.seconds.prefill += read->seconds.prefill;
    }
    // The decoder does not count the prompt's last token, which the first round of each text
    // forwards. For the user the prompt is read once, and all of it.
    if (sample > 0) ++result.stats.reused_tokens;
    summary.add(result);
    if (a.json) {
      print_json(to_json(result, options.seed, facts, session));
    } else {
      print.finish();
      if (a.options.logprobs >= 0) write_out("\n" + logprob_table(tokenizer, result));
    }
  }
  return summary;
}

/// Read the prompt behind what `file` has of it, and write the file anew.
/// @errors as SnapshotFile
fd::Stats read_through(const std::string& file, SnapshotFile files, Session& session,
                       std::span<const fd::TokenId> prompt, fd::Options options) {
  if (std::filesystem::exists(file)) files.load(file);
  options.cancelled = [] { return InterruptGuard::interrupted(); };
  const fd::Result read = session.read(prompt, options);
  files.save(file);
  return read.stats;
}

int run(GenerateArguments& a) {
  // What can be refused is refused before the models are read, which may take a while.
  a.prompt.check();
  Method method = a.resolve();
  const ModelSettings settings = a.models(method);
  std::string text = a.prompt.read();
  if (text.empty()) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a prompt without text", "at least one character",
                    "give it with -p TEXT or -f FILE");
  }
  TraceFile trace(a.trace);
  Models models(settings);
  const auto prompt =
      encode_prompt(models.target.tokenizer(), std::move(text), a.raw, a.chat_format);
  a.complete(models.target.tokenizer());
  method.n_ctx = a.context(models.target.config().n_ctx, prompt.size());
  method.ngrams = read_tables(a.lookup_static, a.lookup_dynamic, models.target.tokenizer());

  const RunFacts facts{a, method, models};
  Summary summary;
  // Ctrl-C ends the text; before, while the models are loaded, it ends the program.
  {
    const InterruptGuard guard;
    const auto session = make_session(models, method);
    if (a.context_shift) session->shift_context({a.keep.value_or(fd::ContextShift().keep)});
    const StateFile::Run what{settings.target, settings.draft, a.draft_load, a.maps_draft(),
                              method};
    const LearnedFiles learned(a, models, what);
    learned.give_to(*session);
    models.print_note();
    trace.describe(models.target.tokenizer(), session->drafter_names());
    std::optional<fd::Stats> read;
    if (!a.prompt_cache.empty()) {
      read = read_through(a.prompt_cache, {models, what, *session}, *session, prompt, a.options);
    }
    summary = write_texts(*session, prompt, read, facts, trace);
    learned.keep(*session);
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
