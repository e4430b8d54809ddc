#pragma once

#include <string>

#include <foredraft/saved_snapshot.hpp>

#include "session.hpp"
#include "state_file.hpp"

namespace cli {

/// Files of a session's text with all that was computed for it: /save and /load of a chat, and
/// --prompt-cache.
///
/// They belong to the target's weights, the format of its cache and the instruction set, since all
/// of these decide what is computed to the last bit. Drafters that are others read the text again.
class SnapshotFile {
 public:
  SnapshotFile(const Models& models, const StateFile::Run& run, Session& session);

  /// As write_saved. @errors kIo
  void save(const std::string& file, const std::string& note = {});
  /// Errors name the file. @errors kIo and those of Session::load
  Session::Loaded load(const std::string& file);

 private:
  fd::SnapshotOwner owner_;
  Session& session_;
};

}  // namespace cli
