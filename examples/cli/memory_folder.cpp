#include "memory_folder.hpp"

#include <istream>
#include <ostream>
#include <system_error>
#include <utility>

#include "ngram_file.hpp"
#include "saved_file.hpp"
#include "speculation.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

/// Calls use(drafter, memory, name) for each drafter of a session that has something to keep.
template <typename Use>
void for_each_memory(Session& session, Use use) {
  for (const std::string& name : session.drafter_names()) {
    const DrafterKind* kind = drafter_named(name);
    if (kind == nullptr || kind->memory == nullptr) continue;
    use(*session.drafter(name), *kind->memory, name);
  }
}

}  // namespace

MemoryFolder::MemoryFolder(std::string folder, const Models& models) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  vocabulary_ = fingerprint(models.target.tokenizer());
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw fd::Error(fd::ErrorCode::kIo,
                    "no folder '" + visible(folder_.string()) + "': " + error.message(),
                    "a folder, or room to make one", "");
  }
}

void MemoryFolder::give_to(Session& session) const {
  if (folder_.empty()) return;
  for_each_memory(session,
                  [&](TreeDrafter& drafter, const DrafterMemory& memory, const std::string& name) {
                    const std::filesystem::path file = folder_ / name;
                    if (!std::filesystem::exists(file)) return;  // it has not learned anything yet
                    read_saved(file, "a file of --spec-memory",
                               "name a folder that can be read, or one that does not exist",
                               [&](std::istream& in) { memory.load(drafter, in, vocabulary_); });
                  });
}

void MemoryFolder::keep(Session& session) const {
  if (folder_.empty()) return;
  for_each_memory(session, [&](TreeDrafter& drafter, const DrafterMemory& memory,
                               const std::string& name) {
    write_saved(folder_ / name, [&](std::ostream& out) { memory.save(drafter, out, vocabulary_); });
  });
}

}  // namespace cli
