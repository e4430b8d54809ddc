#include <foredraft/core/saved_table.hpp>

#include <array>
#include <limits>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

constexpr auto kKind = fd::TableKind::kNgramCounts;
const fd::VocabularyFingerprint kVocabulary{.n_vocab = 100, .used = 90, .pieces = 7};

std::string file_of(const fd::SavedTable& table) {
  std::ostringstream out;
  fd::write_table(out, table);
  return out.str();
}

std::string some_file(std::size_t size = 3000) {
  fd::SavedTable table{kKind, kVocabulary, std::vector<std::byte>(size)};
  for (std::size_t i = 0; i < size; ++i) table.payload[i] = static_cast<std::byte>(i * 7);
  return file_of(table);
}

fd::SavedTable read(const std::string& bytes, fd::TableKind kind = kKind,
                    const fd::VocabularyFingerprint& vocabulary = kVocabulary,
                    std::uint64_t most = fd::kMaxTableBytes) {
  std::istringstream in(bytes);
  return fd::read_table(in, kind, vocabulary, most);
}

/// The file with a number of its header replaced, and the header's checksum made to fit.
template <typename T>
std::string forged(std::string file, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) file[at + i] = static_cast<char>(value >> 8 * i);
  const std::uint64_t sum = fd::checksum(std::as_bytes(std::span(file).first(48)));
  for (std::size_t i = 0; i < 8; ++i) file[48 + i] = static_cast<char>(sum >> 8 * i);
  return file;
}

fd::TargetInfo target(std::vector<std::string> pieces, int used, int n_vocab) {
  return {.n_vocab = n_vocab,
          .vocabulary = {.size = static_cast<int>(pieces.size()),
                         .used = used,
                         .piece = [pieces](fd::TokenId id) { return pieces[fd::idx(id)]; }}};
}

}  // namespace

TEST_CASE("a table comes back as it was written, the empty one too") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{3000}, (std::size_t{2} << 20) + 5}) {
    const fd::SavedTable table = read(some_file(size));
    CHECK(table.kind == kKind);
    CHECK(table.vocabulary == kVocabulary);
    REQUIRE(table.payload.size() == size);
    CHECK((size == 0 || table.payload.back() == static_cast<std::byte>((size - 1) * 7)));
  }
}

TEST_CASE("the layout of the header is fixed: it stands in files") {
  const std::string file = some_file(5);
  REQUIRE(file.size() == 56 + 5);
  CHECK(file.substr(0, 8) == std::string("FDTABLE\0", 8));
  CHECK(file.substr(8, 12) == std::string("\1\0\0\0\1\0\0\0\x64\0\0\0", 12));
  CHECK(file[20] == 90);
  CHECK(file[24] == 7);
  CHECK(file[32] == 5);
}

TEST_CASE("a file that was cut off anywhere is refused") {
  const std::string file = some_file(300);
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK(code_of([&] { read(file.substr(0, size)); }) == fd::ErrorCode::kCorruptFile);
  }
  CHECK(code_of([&] { read(file + "x"); }) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("every flipped bit is seen") {
  const std::string file = some_file(100);
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    CAPTURE(bit);
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    CHECK_THROWS_AS(read(damaged), fd::Error);
  }
}

TEST_CASE("a size that lies takes no memory") {
  const std::string file = some_file(10);
  CHECK(code_of([&] { read(forged(file, 32, std::uint64_t{1} << 29)); }) ==
        fd::ErrorCode::kCorruptFile);
  for (const std::uint64_t size : {fd::kMaxTableBytes + 1, std::uint64_t{1} << 63,
                                   std::numeric_limits<std::uint64_t>::max()}) {
    CHECK(code_of([&] { read(forged(file, 32, size)); }) == fd::ErrorCode::kCorruptFile);
  }
  CHECK(code_of([&] { read(file, kKind, kVocabulary, 9); }) == fd::ErrorCode::kCorruptFile);
  CHECK_NOTHROW(read(file, kKind, kVocabulary, 10));
}

TEST_CASE("another kind, another version and a vocabulary of nothing have errors of their own") {
  const std::string file = some_file(10);
  CHECK(code_of([&] { read(file, fd::TableKind::kNgramMod); }) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of([&] { read(forged(file, 12, 77u)); }) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of([&] { read(forged(file, 8, 2u)); }) == fd::ErrorCode::kUnsupportedModel);
  CHECK(code_of([&] { read(forged(file, 16, 0u)); }) == fd::ErrorCode::kCorruptFile);
  CHECK(code_of([&] { read(forged(file, 20, 101u)); }) == fd::ErrorCode::kCorruptFile);
  CHECK(code_of([&] { file_of({kKind, {}, {}}); }) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("a table of another vocabulary is refused") {
  const std::string file = some_file(10);
  const auto mismatch = [&](const fd::VocabularyFingerprint& vocabulary) {
    return code_of([&] { read(file, kKind, vocabulary); }) == fd::ErrorCode::kVocabularyMismatch;
  };
  CHECK(mismatch({.n_vocab = 100, .used = 90, .pieces = 8}));
  CHECK(mismatch({.n_vocab = 100, .used = 91, .pieces = 7}));
  CHECK(mismatch({.n_vocab = 101}));
  CHECK_NOTHROW(read(file, kKind, {.n_vocab = 100}));                           // not known
  CHECK_NOTHROW(read(file, kKind, {.n_vocab = 128, .used = 90, .pieces = 7}));  // padded further
}

TEST_CASE(
    "a fingerprint tells permuted, shifted and renamed pieces apart, and leaves out padding") {
  const auto print = [](std::vector<std::string> pieces, int used, int n_vocab) {
    return fd::fingerprint_of(target(std::move(pieces), used, n_vocab));
  };
  const auto plain = print({"a", "bc", "d", "pad"}, 3, 4);
  CHECK(plain.n_vocab == 4);
  CHECK(plain.used == 3);
  CHECK(plain.pieces == print({"a", "bc", "d", "other", "more"}, 3, 5).pieces);
  CHECK(plain.pieces != print({"bc", "a", "d"}, 3, 4).pieces);
  CHECK(plain.pieces != print({"ab", "c", "d"}, 3, 4).pieces);
  CHECK(plain.pieces != print({"a", "bc", "D"}, 3, 4).pieces);
  CHECK(fd::fingerprint_of({.n_vocab = 4}) == fd::VocabularyFingerprint{.n_vocab = 4});
}

TEST_CASE("streams that fail are an error of input and output") {
  std::istringstream closed;
  closed.setstate(std::ios::failbit);
  CHECK(code_of([&] { fd::read_table(closed, kKind, kVocabulary); }) == fd::ErrorCode::kIo);

  struct Full : std::streambuf {
  } full;  // takes nothing
  std::ostream out(&full);
  CHECK(code_of([&] { fd::write_table(out, {kKind, kVocabulary, {}}); }) == fd::ErrorCode::kIo);

  struct Broken : std::streambuf {
    int_type underflow() override { throw std::runtime_error("the disk is gone"); }
  } broken;
  std::istream in(&broken);
  CHECK(code_of([&] { fd::read_table(in, kKind, kVocabulary); }) == fd::ErrorCode::kIo);
}
