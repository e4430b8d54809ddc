#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/core/checksum.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/mapped_file.hpp>

namespace foredraft::inline v0 {

// The packed matrices of one model in a file: a header, a table, then the matrices, each at a
// multiple of 4096. Byte order and layout are the writer's; a reader of another kind refuses it.

/// The first bytes of a packed file.
struct PackedHeader {
  char magic[8] = {'F', 'D', 'P', 'A', 'N', 'E', 'L', 'S'};
  std::uint32_t byte_order = 0x01020304;
  std::uint32_t version = 1;      ///< grows with every change of this file or of a layout
  std::uint64_t layout = 0;       ///< MappableMatrix: layout()
  std::uint64_t file_bytes = 0;   ///< of this file
  std::uint64_t model_bytes = 0;  ///< these four: FileFacts of the model's file
  std::uint64_t model_inode = 0;
  std::int64_t model_modified = 0;
  std::int64_t model_changed = 0;
  std::uint64_t model_header = 0;  ///< checksum of its metadata and table of tensors
  std::uint64_t n_matrices = 0;
  std::uint64_t checksum = 0;  ///< of this header and the table, taken while this is 0
};

/// One matrix of the table.
struct PackedEntry {
  std::uint64_t source = 0;  ///< where the tensor's data begins in the model's file
  std::uint32_t type = 0;    ///< TensorType
  std::uint32_t unused = 0;
  std::uint64_t n_out = 0;
  std::uint64_t n_in = 0;
  std::uint64_t offset = 0;  ///< of the panels in this file
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< of the panels: checksum_of_pieces()
};

static_assert(std::has_unique_object_representations_v<PackedHeader>);
static_assert(std::has_unique_object_representations_v<PackedEntry>);

/// What stands before the matrices.
///
/// All of it but the checksums follows from the model. So a reader makes its own with
/// plan_packed_file() and compares: no count, size or offset of a packed file is ever used.
struct PackedHead {
  PackedHeader header;
  std::vector<PackedEntry> entries;

  std::uint64_t sum() const {
    PackedHeader plain = header;
    plain.checksum = 0;
    const std::uint64_t sums[] = {checksum(std::as_bytes(std::span(&plain, 1))),
                                  checksum(std::as_bytes(std::span(entries)))};
    return checksum(std::as_bytes(std::span(sums)));
  }
};

/// Bytes that are summed up at once; what several threads share.
inline constexpr std::size_t kChecksumPiece = std::size_t{1} << 20;

/// Checksum of something longer, from those of its pieces of kChecksumPiece bytes.
inline std::uint64_t checksum_of_pieces(std::span<const std::uint64_t> sums) noexcept {
  return checksum(std::as_bytes(sums));
}

/// The head of the packed file of a model, without its checksums.
/// @tparam M        what the matrices are packed into
/// @param matrices  as they follow each other, all of `model`
/// @errors as M::bytes_of(); kInvalidOption where the model is no file
template <MappableMatrix M>
PackedHead plan_packed_file(const Gguf& model, std::span<const TensorView> matrices) {
  const FileFacts* facts = model.file_facts();
  if (facts == nullptr) {
    throw Error(ErrorCode::kInvalidOption, "packed_files for a model that is no file",
                "a model that Gguf::open opened", "leave it out");
  }
  PackedHead head;
  PackedHeader& header = head.header;
  header.layout = M::layout();
  header.model_bytes = facts->size;
  header.model_inode = facts->inode;
  header.model_modified = facts->modified;
  header.model_changed = facts->changed;
  header.model_header = checksum(model.header_bytes());
  header.n_matrices = matrices.size();
  constexpr std::uint64_t kPage = 4096;
  // None of these sums can wrap: what is packed takes at most some hundred times the model's file, which
  // lies on a disk.
  std::uint64_t end = sizeof(PackedHeader) + matrices.size() * sizeof(PackedEntry);
  for (const TensorView& matrix : matrices) {
    PackedEntry entry;
    entry.source = static_cast<std::uint64_t>(matrix.data.data() - model.header_bytes().data());
    entry.type = static_cast<std::uint32_t>(matrix.type);
    entry.n_out = matrix.n_out;
    entry.n_in = matrix.n_in;
    entry.offset = (end + kPage - 1) / kPage * kPage;
    entry.bytes = M::bytes_of(matrix.type, matrix.n_out, matrix.n_in);
    end = entry.offset + entry.bytes;
    head.entries.push_back(entry);
  }
  header.file_bytes = end;
  return head;
}

/// Why a packed file is not the one that was planned; nothing where it is. Fills in the checksums
/// of the matrices, which are yet to be compared with what they sum up.
inline std::string difference(const MappedFile& file, PackedHead& plan) {
  const std::span<const std::byte> bytes = file.bytes();
  PackedHead found;
  if (bytes.size() < sizeof(PackedHeader)) return "it is cut off";
  std::memcpy(&found.header, bytes.data(), sizeof(PackedHeader));
  const PackedHeader& have = found.header;
  const PackedHeader& want = plan.header;
  if (std::memcmp(have.magic, want.magic, sizeof(want.magic)) != 0) return "it is another format";
  if (have.byte_order != want.byte_order) return "it has another byte order";
  if (have.version != want.version || have.layout != want.layout) return "it is of another version";
  if (have.model_bytes != want.model_bytes || have.model_inode != want.model_inode ||
      have.model_modified != want.model_modified || have.model_changed != want.model_changed ||
      have.model_header != want.model_header) {
    return "it belongs to another model, or the model has changed";
  }
  if (bytes.size() != want.file_bytes) return "it is cut off, or too long";
  // From here on the file is as long as planned, so everything planned lies within it.
  found.entries.resize(plan.entries.size());
  std::memcpy(found.entries.data(), bytes.data() + sizeof(PackedHeader),
              found.entries.size() * sizeof(PackedEntry));
  if (have.checksum != found.sum()) return "it is damaged";
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    plan.entries[i].checksum = found.entries[i].checksum;
  }
  plan.header.checksum = have.checksum;
  const bool same =
      std::memcmp(&have, &want, sizeof(PackedHeader)) == 0 &&
      (plan.entries.empty() || std::memcmp(found.entries.data(), plan.entries.data(),
                                           plan.entries.size() * sizeof(PackedEntry)) == 0);
  return same ? "" : "it lists other matrices";
}

namespace detail {

/// A file that takes its name only when it is complete. Whatever happens before, a kill included,
/// leaves nothing behind where the file system knows files without a name, and else at most a file
/// of another name.
class FileInTheMaking {
 public:
  /// @errors std::system_error, as every function here
  explicit FileInTheMaking(const std::filesystem::path& path) : path_(path) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    temporary_ = path;
    temporary_ += "." + std::to_string(::getpid()) + "-" + std::to_string(now) + ".tmp";
#if defined(O_TMPFILE)
    file_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
#endif
    if (file_ >= 0) return;
    file_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file_ < 0) fail();
    named_ = true;
  }
  FileInTheMaking(const FileInTheMaking&) = delete;
  FileInTheMaking& operator=(const FileInTheMaking&) = delete;
  ~FileInTheMaking() {
    ::close(file_);
    if (named_) ::unlink(temporary_.c_str());
  }

  /// Have the room before anything is written, where the file system can promise it.
  void reserve(std::uint64_t bytes) {
#if defined(__linux__)
    if (::fallocate(file_, 0, 0, static_cast<off_t>(bytes)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT)) {
      fail();
    }
#else
    (void)bytes;
#endif
  }

  void write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
      // Linux writes at most 2 GB at once.
      const std::size_t most = std::min(bytes.size(), std::size_t{1} << 30);
      const ssize_t written = ::pwrite(file_, bytes.data(), most, static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written == 0) errno = ENOSPC;  // the call names no reason
      if (written <= 0) fail();
      bytes = bytes.subspan(idx(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }

  /// Take the name, from an older file if need be. @param mode  permission bits
  void finish(std::uint32_t mode) {
    if (::fchmod(file_, static_cast<mode_t>(mode)) != 0) fail();
    if (!named_) {
      const std::string self = "/proc/self/fd/" + std::to_string(file_);
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        fail();
      }
      named_ = true;
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    named_ = false;
  }

 private:
  [[noreturn]] static void fail() { throw std::system_error(errno, std::generic_category()); }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_ = -1;
  bool named_ = false;  // the temporary name exists
};

}  // namespace detail

/// Write a packed file, replacing another at once: whoever opens it gets the old one or all of the
/// new one.
/// @param head      planned, with the checksums of the matrices
/// @param matrices  the panels of each entry
/// @param mode      permission bits: those of the model, as it shows the same
/// @errors std::system_error, where nothing is left behind
/// @cost one copy of all panels into the system's memory; the disk gets them later
inline void write_packed_file(const std::filesystem::path& path, PackedHead head,
                              std::span<const std::span<const std::byte>> matrices,
                              std::uint32_t mode) {
  head.header.checksum = head.sum();
  detail::FileInTheMaking file(path);
  file.reserve(head.header.file_bytes);
  file.write(std::as_bytes(std::span(&head.header, 1)), 0);
  file.write(std::as_bytes(std::span(head.entries)), sizeof(PackedHeader));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    file.write(matrices[i], head.entries[i].offset);
  }
  file.finish(mode);
}

}  // namespace foredraft::inline v0
