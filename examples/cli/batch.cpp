#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/index.hpp>

#include "commands.hpp"
#include "generate_arguments.hpp"
#include "interrupt.hpp"
#include "ngram_file.hpp"
#include "output.hpp"
#include "prompts.hpp"
#include "report.hpp"
#include "target.hpp"
#include "together.hpp"

namespace cli {

namespace {

struct Arguments {
  GenerateArguments generate;
  std::string file;
  int parallel = 8;
};

/// All prompts of a file, some of them at once. The lines come in the order of the file.
class Answers {
 public:
  Answers(Together& together, int writers, std::vector<std::vector<fd::TokenId>> prompts,
          const fd::Options& options)
      : together_(together),
        prompts_(std::move(prompts)),
        lines_(prompts_.size()),
        writers_(fd::idx(writers)),
        options_(options) {}

  void run() {
    const auto start = Clock::now();
    for (;;) {
      for (std::size_t i = 0; i < writers_.size(); ++i) take_next(static_cast<int>(i));
      print();
      if (std::ranges::none_of(writers_, [](const Writer& w) { return w.text.valid(); })) break;
      try {
        together_.step();
      } catch (...) {
        print_all();
        throw;
      }
      for (Writer& writer : writers_) collect(writer);
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// Some prompts have no answer, or not all of it.
  bool cancelled() const noexcept { return cancelled_ || next_ < prompts_.size(); }
  int failed() const noexcept { return failed_; }

  /// The lines below the texts.
  std::string summary(const Models& models) const {
    std::string text = formatted("prompts: %zu of %zu, %lld tokens\n", printed_, prompts_.size(),
                                 static_cast<long long>(stats_.prompt_tokens));
    text += formatted("decode: %lld tokens, %zu texts at once, %.3f s in all: %.1f t/s\n",
                      static_cast<long long>(stats_.emitted), writers_.size(), seconds_,
                      static_cast<double>(stats_.emitted) / std::max(seconds_, 1e-9));
    if (stats_.drafted > 0) {
      text +=
          formatted("drafts: %lld tokens, %lld accepted (%.1f %%), acceptance length %.2f\n",
                    static_cast<long long>(stats_.drafted), static_cast<long long>(stats_.accepted),
                    100 * stats_.acceptance_rate(), stats_.acceptance_length());
    }
    return text + formatted("load: %.2f s (%d threads, %s)\n", models.load_seconds,
                            models.cpu.threads(), models.isa().c_str());
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Writer {
    std::future<fd::Result> text;  // valid while it writes
    std::size_t prompt = 0;
  };

  /// A prompt that cannot be answered has a line that says so, and the others go on.
  void fail(std::size_t prompt, const std::exception& error) {
    ++failed_;
    keep(prompt, {{"error", error.what()}});
  }

  void keep(std::size_t prompt, const Json& answer) {
    Json line{{"index", prompt}};
    line.update(answer);
    lines_[prompt] = std::move(line);
    prompts_[prompt] = {};
  }

  /// Give the writer a prompt, if it has none and there is one.
  void take_next(int i) {
    Writer& writer = writers_[fd::idx(i)];
    while (!writer.text.valid() && next_ < prompts_.size() && !InterruptGuard::interrupted()) {
      writer.prompt = next_++;
      try {
        writer.text = together_.generate(i, prompts_[writer.prompt], options_, {});
      } catch (const std::exception& error) {
        fail(writer.prompt, error);
      }
    }
  }

  void collect(Writer& writer) {
    const auto over = [](const std::future<fd::Result>& text) {
      return text.valid() && text.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    if (!over(writer.text)) return;
    try {
      const fd::Result result = writer.text.get();
      stats_ += result.stats;
      cancelled_ |= result.finish_reason == fd::FinishReason::kCancelled;
      keep(writer.prompt, to_json(result));
    } catch (const std::exception& error) {
      fail(writer.prompt, error);
    }
  }

  /// Lines before which all are printed.
  void print() {
    for (; first_ < lines_.size() && lines_[first_]; ++first_) print(lines_[first_]);
  }
  /// And the others: somebody may go on from there.
  void print_all() {
    for (std::optional<Json>& line : lines_) {
      if (line) print(line);
    }
  }
  void print(std::optional<Json>& line) {
    print_json(*line);
    line.reset();
    ++printed_;
  }

  Together& together_;
  std::vector<std::vector<fd::TokenId>> prompts_;
  std::vector<std::optional<Json>> lines_;  // [prompts]; those that wait for one before them
  std::vector<Writer> writers_;
  fd::Options options_;
  std::size_t next_ = 0;     // prompt that waits
  std::size_t first_ = 0;    // line that is not printed
  std::size_t printed_ = 0;  // lines
  int failed_ = 0;
  bool cancelled_ = false;
  fd::Stats stats_;
  double seconds_ = 0;
};

int run(Arguments& asked) {
  GenerateArguments& a = asked.generate;
  Method method = a.resolve();
  const ModelSettings settings = a.models(method);
  std::vector<std::string> texts = read_prompts(asked.file);
  Models models(settings);
  const fd::Tokenizer& tokenizer = models.target.tokenizer();
  std::vector<std::vector<fd::TokenId>> prompts;
  std::size_t longest = 0;
  for (std::string& text : texts) {
    prompts.push_back(encode_prompt(tokenizer, std::move(text), a.raw, a.chat_format));
    longest = std::max(longest, prompts.back().size());
  }
  a.complete(tokenizer);
  method.n_ctx = a.context(models.target.config().n_ctx, longest);
  method.ngrams = read_tables(a.lookup_static, {}, tokenizer);
  a.options.cancelled = [] { return InterruptGuard::interrupted(); };

  const int writers = std::min(asked.parallel, static_cast<int>(prompts.size()));
  const auto together = models.target.make_together(models, method, writers);
  models.print_note();
  Answers answers(*together, writers, std::move(prompts), a.options);
  {
    const InterruptGuard guard;
    answers.run();
  }
  std::cerr << answers.summary(models);
  if (answers.cancelled()) return kExitInterrupt;
  return answers.failed() > 0 ? kExitFailure : 0;
}

}  // namespace

void add_batch(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "batch",
      "Answer all prompts of a file, several at once in passes that they share. Each text is "
      "that of 'generate'. One JSON object a line, in the order of the prompts.");
  const auto a = std::make_shared<Arguments>();
  a->generate.add_to_batch(*command);
  add_prompts_option(*command, a->file);
  add_number(*command, "--parallel N", a->parallel, 1, 256, "texts at once [8]");
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
