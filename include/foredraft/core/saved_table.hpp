#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/checksum.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/table_payload.hpp>
#include <foredraft/core/target_info.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What the payload of a file of learned tokens is. A number never changes its meaning.
enum class TableKind : std::uint32_t {
  kNgramCounts = 1,     ///< NgramCounts
  kNgramMod = 2,        ///< NgramModTable
  kSuffixTree = 3,      ///< texts of past requests, for suffix decoding
  kTokenRecycling = 4,  ///< what followed each token
  kController = 5,      ///< ControllerState
  kSnapshot = 6,        ///< a decoder's, see saved_snapshot.hpp
  kLookahead = 7,       ///< n-grams that a target passed through
};

constexpr std::string_view name_of(TableKind kind) noexcept {
  switch (kind) {
    case TableKind::kNgramCounts: return "ngram-cache";
    case TableKind::kNgramMod: return "ngram-mod";
    case TableKind::kSuffixTree: return "suffix";
    case TableKind::kTokenRecycling: return "recycling";
    case TableKind::kController: return "controller";
    case TableKind::kSnapshot: return "snapshot";
    case TableKind::kLookahead: return "lookahead";
  }
  return "unknown";
}

/// Which vocabulary token ids belong to, in few bytes: ids mean nothing without it.
struct VocabularyFingerprint {
  std::uint32_t n_vocab = 0;  ///< ids are below it
  std::uint32_t used = 0;     ///< ids in use, without padding; 0: the pieces are not known
  std::uint64_t pieces = 0;   ///< checksum of their pieces

  friend bool operator==(const VocabularyFingerprint&, const VocabularyFingerprint&) = default;

  std::string describe() const {
    std::string text = "a vocabulary of " + std::to_string(n_vocab) + " tokens";
    if (used > 0) text += ", pieces " + std::to_string(pieces);
    return text;
  }
};

/// @cost O(bytes of all pieces)
inline VocabularyFingerprint fingerprint_of(const TargetInfo& target) {
  VocabularyFingerprint print{.n_vocab = static_cast<std::uint32_t>(std::max(target.n_vocab, 0))};
  const VocabularyInfo& vocabulary = target.vocabulary;
  if (!vocabulary.piece || vocabulary.used <= 0) return print;
  std::vector<std::byte> all;
  for (TokenId id = 0; id < vocabulary.used; ++id) {
    const std::string piece = vocabulary.piece(id);
    // With its length, so that no two lists of pieces are the same bytes.
    for (unsigned shift = 0; shift < 32; shift += 8) {
      all.push_back(static_cast<std::byte>(piece.size() >> shift));
    }
    for (const char c : piece) all.push_back(static_cast<std::byte>(c));
  }
  print.used = static_cast<std::uint32_t>(vocabulary.used);
  print.pieces = checksum(all);
  return print;
}

/// Tokens of a table with the one may be drafted for a target with the other. As with draft models:
/// the same pieces in use, padding aside; as many tokens where the pieces of one are not known.
/// @errors kVocabularyMismatch
inline void require_same_vocabulary(const VocabularyFingerprint& target,
                                    const VocabularyFingerprint& table) {
  const bool pieces = target.used > 0 && table.used > 0;
  const bool same = pieces ? target.used == table.used && target.pieces == table.pieces
                           : target.n_vocab == table.n_vocab;
  if (same) return;
  throw Error(ErrorCode::kVocabularyMismatch, "a table for " + table.describe(),
              target.describe() + ", which is the target's",
              "learn it again from texts of this model");
}

/// A table with what its file says of it.
struct SavedTable {
  TableKind kind{};
  VocabularyFingerprint vocabulary = {};
  std::vector<std::byte> payload = {};
};

/// The frame of a file of learned tokens, all numbers little-endian:
///
/// | byte | holds |
/// |---|---|
/// | 0 | `FDTABLE` and a zero byte |
/// | 8 | version of the payload, 32 bits: version_of() |
/// | 12 | kind, 32 bits: TableKind |
/// | 16 | tokens in the vocabulary, and those in use, 32 bits each |
/// | 24 | checksum of the pieces, 64 bits |
/// | 32 | size of the payload, 64 bits |
/// | 40 | checksum of the payload, 64 bits |
/// | 48 | checksum of the 48 bytes before, 64 bits |
/// | 56 | the payload, and nothing behind it |
namespace table_frame {

inline constexpr std::size_t kSize = 56;
/// Of the payload's layout; another one is not read.
constexpr std::uint32_t version_of(TableKind kind) noexcept {
  return kind == TableKind::kSnapshot ? 4 : 1;
}
inline constexpr std::string_view kMagic{"FDTABLE\0", 8};

struct Header {
  TableKind kind{};
  VocabularyFingerprint vocabulary = {};
  std::uint64_t size = 0;
  std::uint64_t sum = 0;
};

inline std::vector<std::byte> bytes_of(const SavedTable& table) {
  PayloadWriter header;
  for (const char c : kMagic) header.put(c);
  header.put(version_of(table.kind));
  header.put(static_cast<std::uint32_t>(table.kind));
  header.put(table.vocabulary.n_vocab);
  header.put(table.vocabulary.used);
  header.put(table.vocabulary.pieces);
  header.put(static_cast<std::uint64_t>(table.payload.size()));
  header.put(checksum(table.payload));
  header.put(checksum(header.bytes()));
  return std::move(header).bytes();
}

/// @errors kCorruptFile, kUnsupportedModel for another version
inline Header parse(std::span<const std::byte> bytes) {
  const auto corrupt = [](std::string_view found, std::string_view expected) {
    return Error(ErrorCode::kCorruptFile, found, expected,
                 "such files are what drafters that learn save");
  };
  if (bytes.size() < kMagic.size() ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw corrupt("a file that does not begin with FDTABLE", "a table of learned tokens");
  }
  if (bytes.size() < kSize) throw corrupt("a file that ends within its header", "56 bytes of it");
  PayloadReader reader(bytes.subspan(kMagic.size()), 0);
  const auto version = reader.take<std::uint32_t>("version");
  Header header{.kind = static_cast<TableKind>(reader.take<std::uint32_t>("kind"))};
  if (version != version_of(header.kind)) {
    throw Error(ErrorCode::kUnsupportedModel, "a table of version " + std::to_string(version),
                "version " + std::to_string(version_of(header.kind)),
                header.kind == TableKind::kSnapshot ? "save it again with this foredraft"
                                                    : "learn it again with this foredraft");
  }
  header.vocabulary.n_vocab = reader.take<std::uint32_t>("size of the vocabulary");
  header.vocabulary.used = reader.take<std::uint32_t>("tokens in use");
  header.vocabulary.pieces = reader.take<std::uint64_t>("checksum of the pieces");
  header.size = reader.take<std::uint64_t>("size of the payload");
  header.sum = reader.take<std::uint64_t>("checksum of the payload");
  if (reader.take<std::uint64_t>("checksum of the header") != checksum(bytes.first(kSize - 8))) {
    throw corrupt("a header that contradicts its checksum", "an intact file");
  }
  if (header.vocabulary.n_vocab == 0 || header.vocabulary.used > header.vocabulary.n_vocab) {
    throw corrupt(header.vocabulary.describe() + ", " + std::to_string(header.vocabulary.used) +
                      " of them in use",
                  "at least one token, and no more in use than there are");
  }
  return header;
}

}  // namespace table_frame

/// Greatest payload that is read unless the caller says otherwise: a file decides how much memory
/// it takes. @units bytes
inline constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 30;

/// Write a table with its frame. Write into a file of another name and rename it, so that nobody
/// reads half of one.
/// @errors kInvalidOption for a vocabulary of unknown size, kIo where the stream takes it not
inline void write_table(std::ostream& out, const SavedTable& table) {
  if (table.vocabulary.n_vocab == 0) {
    throw Error(ErrorCode::kInvalidOption, "a table for a vocabulary of unknown size",
                "TargetInfo::n_vocab, which is stored with it");
  }
  const auto write = [&out](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  write(table_frame::bytes_of(table));
  write(table.payload);
  if (!out.flush()) {
    throw Error(ErrorCode::kIo,
                "a table of " + std::to_string(table.payload.size()) + " bytes was not written",
                "a stream that takes it", "is the disk full?");
  }
}

/// Read a table of `kind` for a target with `vocabulary`. `in` ends behind it.
/// @errors kIo; kCorruptFile for a file that is damaged, cut off, greater than `max_bytes` or no
/// table; kUnsupportedModel for another version; kInvalidOption for another kind;
/// kVocabularyMismatch; kOutOfMemory. No more memory is taken than twice what is really there.
inline SavedTable read_table(std::istream& in, TableKind kind,
                             const VocabularyFingerprint& vocabulary,
                             std::uint64_t max_bytes = kMaxTableBytes) {
  const auto read = [&in](std::span<std::byte> into) {
    in.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
    if (in.bad()) throw Error(ErrorCode::kIo, "a table that cannot be read", "a readable file");
    return into.first(idx(in.gcount()));
  };
  if (!in) throw Error(ErrorCode::kIo, "a stream that is not open", "a readable file");
  std::array<std::byte, table_frame::kSize> first{};
  const table_frame::Header header = table_frame::parse(read(first));
  if (header.kind != kind) {
    throw Error(ErrorCode::kInvalidOption,
                "a table of kind " + std::string(name_of(header.kind)) + " (" +
                    std::to_string(static_cast<std::uint32_t>(header.kind)) + ")",
                "one of kind " + std::string(name_of(kind)), "another drafter wrote this file");
  }
  require_same_vocabulary(vocabulary, header.vocabulary);
  if (header.size > max_bytes) {
    throw Error(ErrorCode::kCorruptFile,
                "a table of " + std::to_string(header.size) + " bytes by its header",
                "at most " + std::to_string(max_bytes));
  }
  SavedTable table{header.kind, header.vocabulary, {}};
  or_out_of_memory("a table of learned tokens", [&] {
    while (table.payload.size() < header.size) {
      constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // the header's size may be a lie
      const std::size_t have = table.payload.size();
      table.payload.resize(have + idx(std::min(header.size - have, kPiece)));
      const auto rest = std::span(table.payload).subspan(have);
      if (const auto got = read(rest); got.size() < rest.size()) {
        throw Error(ErrorCode::kCorruptFile,
                    "a table that ends after " + std::to_string(have + got.size()) + " bytes",
                    std::to_string(header.size), "is the file complete?");
      }
    }
  });
  if (in.peek() != std::istream::traits_type::eof()) {
    throw Error(ErrorCode::kCorruptFile, "bytes behind the table", "the end of the file");
  }
  if (checksum(table.payload) != header.sum) {
    throw Error(ErrorCode::kCorruptFile, "a payload that contradicts its checksum",
                "an intact file", "learn it again, or from a copy");
  }
  return table;
}

}  // namespace foredraft::inline v0
