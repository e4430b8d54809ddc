#include "ngram_file.hpp"

#include <istream>
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

void write_ngrams(const std::string& file, const fd::NgramCounts& counts,
                  const fd::VocabularyFingerprint& vocabulary) {
  write_saved(file, [&](std::ostream& out) { counts.save(out, vocabulary); });
}

}  // namespace cli
