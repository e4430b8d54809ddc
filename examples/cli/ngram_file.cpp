#include "ngram_file.hpp"

#include <filesystem>
#include <istream>
#include <memory>
#include <ostream>

#include <foredraft/io/vocabulary_difference.hpp>

#include "saved_file.hpp"

namespace cli {

fd::VocabularyFingerprint fingerprint(const fd::Tokenizer& tokenizer) {
  const fd::VocabularyInfo vocabulary = fd::vocabulary_info(tokenizer.vocabulary());
  return fd::fingerprint_of({.n_vocab = vocabulary.size, .vocabulary = vocabulary});
}

fd::NgramCounts read_ngrams(const std::string& file, const fd::VocabularyFingerprint& vocabulary) {
  return read_saved(file, "a file of n-grams", "'foredraft ngram build' makes one",
                    [&](std::istream& in) { return fd::NgramCounts::load(in, vocabulary); });
}

NgramTables read_tables(const std::string& fixed, const std::string& dynamic,
                        const fd::Tokenizer& tokenizer) {
  NgramTables tables;
  if (fixed.empty() && dynamic.empty()) return tables;
  const fd::VocabularyFingerprint vocabulary = fingerprint(tokenizer);
  if (!fixed.empty()) {
    tables.fixed = std::make_shared<const fd::NgramCounts>(read_ngrams(fixed, vocabulary));
  }
  if (!dynamic.empty()) {
    // The first run makes the file, when its text is known.
    const bool there = std::filesystem::exists(dynamic);
    tables.dynamic = std::make_shared<fd::SharedNgramCounts>(
        there ? read_ngrams(dynamic, vocabulary) : fd::NgramCounts());
  }
  return tables;
}

void write_ngrams(const std::string& file, const fd::NgramCounts& counts,
                  const fd::VocabularyFingerprint& vocabulary) {
  write_saved(file, [&](std::ostream& out) { counts.save(out, vocabulary); });
}

}  // namespace cli
