#pragma once

#include <string>

#include "generate_arguments.hpp"
#include "memory_folder.hpp"
#include "models.hpp"
#include "session.hpp"
#include "state_file.hpp"

namespace cli {

/// All that speculation learns in one run for the next: --spec-state, --spec-memory and
/// --lookup-cache-dynamic, whose tables drafters are made with.
class LearnedFiles {
 public:
  /// @errors as StateFile and MemoryFolder
  LearnedFiles(const GenerateArguments& asked, const Models& models, const StateFile::Run& run);

  /// @errors as MemoryFolder
  void give_to(Session& session) const;

  /// Behind the last text. It has no successor, which would have made it enter what is written here.
  /// @errors kIo
  void keep(Session& session) const;

 private:
  StateFile state_;
  MemoryFolder memory_;
  NgramTables ngrams_;
  std::string ngrams_file_;
  const fd::Tokenizer& tokenizer_;
};

}  // namespace cli
