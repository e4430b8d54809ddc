#pragma once

#include <filesystem>
#include <string>

#include <foredraft/core/saved_table.hpp>

#include "models.hpp"
#include "session.hpp"

namespace cli {

/// --spec-memory FOLDER: what drafters learn from texts, from run to run, in a file for each of them.
/// Files of drafters that do not take part stay as they are.
class MemoryFolder {
 public:
  /// Makes the folder where there is none, so that a text is not written first in vain.
  /// @param folder  empty: nothing is read or written @errors kIo
  MemoryFolder(std::string folder, const Models& models);

  /// Reads the files that there are. @errors kIo and what the drafters' load() throws, with the name of
  ///   the file
  void give_to(Session& session) const;
  /// Writes as write_saved. @errors kIo
  void keep(Session& session) const;

 private:
  std::filesystem::path folder_;
  fd::VocabularyFingerprint vocabulary_;
};

}  // namespace cli
