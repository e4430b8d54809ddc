#include "learned_files.hpp"

#include "ngram_file.hpp"

namespace cli {

LearnedFiles::LearnedFiles(const GenerateArguments& asked, const Models& models,
                           const StateFile::Run& run)
    : state_(asked.state, models, run),
      memory_(asked.memory, models),
      ngrams_(run.method.ngrams),
      ngrams_file_(asked.lookup_dynamic),
      tokenizer_(models.target.tokenizer()) {}

void LearnedFiles::give_to(Session& session) const {
  state_.give_to(session);
  memory_.give_to(session);
}

void LearnedFiles::keep(Session& session) const {
  session.learn();  // before files are written: the n-grams of this run's text belong to them
  state_.keep(session);
  memory_.keep(session);
  // The static level is a file that only `ngram build` writes.
  if (!ngrams_.dynamic) return;
  ngrams_.dynamic->read([&](const fd::NgramCounts& counts) {
    write_ngrams(ngrams_file_, counts, fingerprint(tokenizer_));
  });
}

}  // namespace cli
