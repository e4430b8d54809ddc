#pragma once

#include <string>

#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/ngram_counts.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "speculation.hpp"
#include "usage.hpp"

namespace cli {

/// Of the model whose tokenizer this is. Files and model need not agree on padding.
fd::VocabularyFingerprint fingerprint(const fd::Tokenizer& tokenizer);

/// @errors kIo and what NgramCounts::load throws, with the name of the file
fd::NgramCounts read_ngrams(const std::string& file, const fd::VocabularyFingerprint& vocabulary);

/// What --lookup-cache-static and --lookup-cache-dynamic name, "" where one was not given. The latter
/// need not exist yet.
/// @errors as read_ngrams
NgramTables read_tables(const std::string& fixed, const std::string& dynamic,
                        const fd::Tokenizer& tokenizer);

/// As write_saved. @errors kIo
void write_ngrams(const std::string& file, const fd::NgramCounts& counts,
                  const fd::VocabularyFingerprint& vocabulary);

}  // namespace cli
