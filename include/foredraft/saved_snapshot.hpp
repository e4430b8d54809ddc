#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/quoted.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/core/state_archive.hpp>

namespace foredraft::inline v0 {

/// To whom a saved snapshot belongs, in the caller's own words. What is computed by one model means
/// nothing to another, so whoever loads it has to say the same.
struct SnapshotOwner {
  VocabularyFingerprint vocabulary = {};
  std::string target = {};  ///< model, format of the cache, and all else that its numbers depend on
  std::string drafters = {};  ///< their names and models
};

template <typename S>
struct LoadedSnapshot {
  S snapshot;
  std::string note;      ///< what the caller saved beside it
  bool drafters = true;  ///< false: they were others, and learn again from the tokens
};

/// A file is read up to this size unless the caller says otherwise. @units bytes
inline constexpr std::uint64_t kMaxSnapshotBytes = std::uint64_t{1} << 36;

/// Write a decoder's snapshot as a file with the frame of saved_table.hpp. Tokens, cache and
/// drafters are kept. Text that is held back, and tokens that no emit has seen, are not: save
/// between two calls.
/// @errors as write_table @cost memory for two copies of the snapshot
template <typename S>
void save_snapshot(std::ostream& out, const S& snapshot, const SnapshotOwner& owner,
                   const std::string& note = {}) {
  PayloadWriter payload;
  StateWriter archive(payload);
  archive(owner.target);
  archive(owner.drafters);
  archive(note);
  archive(snapshot.tokens);
  archive(snapshot.mirostat);
  archive(snapshot.cold);
  archive(snapshot.cache);
  PayloadWriter drafters;
  if constexpr (Storable<decltype(snapshot.drafter)>) StateWriter{drafters}(snapshot.drafter);
  archive(drafters.bytes());
  write_table(out, {TableKind::kSnapshot, owner.vocabulary, std::move(payload).bytes()});
}

/// Read one. Nothing of the file is believed; what its numbers mean is checked by Decoder::restore.
/// @param like  a snapshot of the decoder that it is for
/// @errors as read_table; kUnsupportedModel where another target wrote it; kCorruptFile
template <typename S>
LoadedSnapshot<S> load_snapshot(std::istream& in, S like, const SnapshotOwner& owner,
                                std::uint64_t max_bytes = kMaxSnapshotBytes) {
  const SavedTable table = read_table(in, TableKind::kSnapshot, owner.vocabulary, max_bytes);
  PayloadReader payload(table.payload, table.vocabulary.n_vocab);
  StateReader archive(payload);
  SnapshotOwner found;
  archive(found.target);
  if (found.target != owner.target) {
    throw Error(ErrorCode::kUnsupportedModel, "what " + in_quotes(found.target) + " computed",
                "the work of " + in_quotes(owner.target),
                "load it with the model and the options with which it was saved");
  }
  LoadedSnapshot<S> loaded{std::move(like), {}, true};
  S& snapshot = loaded.snapshot;
  snapshot.text = {};
  snapshot.undelivered.clear();
  snapshot.unreported.reset();
  archive(found.drafters);
  archive(loaded.note);
  archive(snapshot.tokens);
  archive(snapshot.mirostat);
  archive(snapshot.cold);
  archive(snapshot.cache);
  std::vector<std::byte> drafters;
  archive(drafters);
  payload.end();
  loaded.drafters = found.drafters == owner.drafters;
  if constexpr (Storable<decltype(snapshot.drafter)>) {
    if (loaded.drafters) {
      PayloadReader own(drafters, table.vocabulary.n_vocab);
      StateReader{own}(snapshot.drafter);
      own.end();
      return loaded;
    }
  }
  snapshot.drafter = {};
  return loaded;
}

}  // namespace foredraft::inline v0
