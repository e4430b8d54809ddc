#include "snapshot_file.hpp"

#include <istream>
#include <ostream>
#include <string>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/model_fingerprint.hpp>

#include "cache_format.hpp"
#include "ngram_file.hpp"
#include "output.hpp"
#include "saved_file.hpp"

namespace cli {

SnapshotFile::SnapshotFile(const Models& models, const StateFile::Run& run, Session& session)
    : session_(session) {
  // Opened again: a model that is loaded has no file any more.
  const auto print = fd::model_fingerprint(fd::Gguf::open(run.target));
  owner_.vocabulary = fingerprint(models.target.tokenizer());
  // What a user can change comes first: a message shows the beginning alone.
  const int sinks = run.method.sinks;
  owner_.target = run.target.stem().string() + " (" +
                  formatted("%016llx", static_cast<unsigned long long>(print)) + "), cache " +
                  spelled(run.method.cache) +
                  (sinks > 0 ? ", sinks " + std::to_string(sinks) : std::string()) + ", " +
                  models.isa();
  // Which drafters, in which order: a snapshot holds what each of them remembers of the text.
  for (const std::string& name : session.drafter_names()) {
    const bool self = name == kSelf;
    owner_.drafters += (self ? StateFile::describe_self(models, run.method) : name) + ", ";
  }
  if (!run.draft.empty()) owner_.drafters += StateFile::describe_draft(models, run);
}

void SnapshotFile::save(const std::string& file, const std::string& note) {
  write_saved(file, [&](std::ostream& out) { session_.save(out, owner_, note); });
}

Session::Loaded SnapshotFile::load(const std::string& file) {
  return read_saved(file, "a file that /save or --prompt-cache wrote", "is the path right?",
                    [&](std::istream& in) { return session_.load(in, owner_); });
}

}  // namespace cli
