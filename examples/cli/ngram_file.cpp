#include "ngram_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <foredraft/io/vocabulary_difference.hpp>

#include "terminal.hpp"

namespace cli {

fd::VocabularyFingerprint fingerprint(const fd::Tokenizer& tokenizer) {
  const fd::VocabularyInfo vocabulary = fd::vocabulary_info(tokenizer.vocabulary());
  return fd::fingerprint_of({.n_vocab = vocabulary.size, .vocabulary = vocabulary});
}

fd::NgramCounts read_ngrams(const std::string& file, const fd::VocabularyFingerprint& vocabulary) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw fd::Error(fd::ErrorCode::kIo, "'" + visible(file) + "': " + std::strerror(errno),
                    "a file of n-grams", "'foredraft ngram build' makes one");
  }
  try {
    return fd::NgramCounts::load(in, vocabulary);
  } catch (const fd::Error& error) {
    throw error_in("'" + visible(file) + "'", error);
  }
}

void write_ngrams(const std::string& file, const fd::NgramCounts& counts,
                  const fd::VocabularyFingerprint& vocabulary) {
  const std::string fresh = file + ".new";
  try {
    std::ofstream out(fresh, std::ios::binary);
    counts.save(out, vocabulary);
    out.close();
    std::filesystem::rename(fresh, file);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(fresh, ignored);
    throw fd::Error(fd::ErrorCode::kIo, "'" + visible(file) + "': " + error.what(),
                    "a file that can be written", "name another");
  }
}

}  // namespace cli
