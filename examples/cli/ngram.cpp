#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <foredraft/io/gguf.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "model_path.hpp"
#include "ngram_file.hpp"
#include "output.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  std::string output;
  std::vector<std::string> texts;
  bool dynamic = false;
  int log2_entries = 20;
};

int run(const Arguments& a) {
  const auto tokenizer = fd::Tokenizer::from(fd::Gguf::open(find_model(a.model)));
  fd::NgramCounts counts(std::size_t{1} << a.log2_entries);
  std::size_t n_tokens = 0;
  // The static level is asked for what follows pairs, the dynamic one for what follows one to four.
  const int shortest = a.dynamic ? 1 : 2;
  const int longest = a.dynamic ? fd::NgramCounts::kLongest : 2;
  for (const std::string& file : a.texts) {
    const auto tokens = tokenizer.encode(read_text_file(file), {});
    counts.learn(tokens, 0, shortest, longest);
    n_tokens += tokens.size();
  }
  if (counts.size() == 0) {
    throw fd::Error(fd::ErrorCode::kEmptyPrompt, "texts of " + std::to_string(n_tokens) + " tokens",
                    "enough to count n-grams", "name more texts");
  }
  write_ngrams(a.output, counts, fingerprint(tokenizer));
  write_out(std::to_string(counts.size()) + " n-grams of " + std::to_string(n_tokens) +
            " tokens in " + a.output + "\n");
  return 0;
}

}  // namespace

void add_ngram(CLI::App& app, Action& action) {
  CLI::App* group = app.add_subcommand("ngram", "Files of n-grams, from which ngram-cache drafts.");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand(
      "build",
      "Count the n-grams of texts. 'generate -lcs FILE' drafts from them; the more they "
      "are like what is generated, the better.");
  const auto a = std::make_shared<Arguments>();
  add_model_option(*command, a->model);
  require_text(command->add_option("TEXT", a->texts, "files, each a text of its own")->required());
  require_text(
      add_value(*command, "-o,--output FILE", a->output, "the file of n-grams")->required());
  command->add_flag("--dynamic", a->dynamic,
                    "n-grams of one to four tokens, to begin a file for -lcd; otherwise pairs, "
                    "for -lcs");
  add_number(*command, "--log2-entries N", a->log2_entries, 8, 24,
             "room for 2^N n-grams of 64 bytes; the rarest leave [20]");
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
