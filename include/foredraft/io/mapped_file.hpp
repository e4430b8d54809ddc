#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// What the system says of a file when it is opened: enough to see later whether it is still the
/// same. Whatever writes to a file moves `changed`, which no program can set back.
struct FileFacts {
  std::uint64_t size = 0;
  std::uint64_t inode = 0;
  std::int64_t modified = 0;  ///< @units ns since 1970
  std::int64_t changed = 0;   ///< also owner, mode or name @units ns since 1970
  std::uint32_t owner = 0;    ///< user id
  std::uint32_t mode = 0;     ///< permission bits
};

/// A file as read-only memory. Pages are read when they are first touched, so opening costs the
/// same for every size, and several processes share one copy.
///
/// The bytes stay at their address when the object is moved. A file that another process shortens
/// while it is mapped ends this process with SIGBUS on the next touch behind the new end: replace
/// model files by renaming, never by rewriting them in place.
class MappedFile {
 public:
  MappedFile() noexcept = default;

  /// @errors kIo: missing, a directory or device, no permission, empty, or the system cannot map
  ///   it; kOutOfMemory: the address space has no room for it
  static MappedFile open(const std::filesystem::path& path) {
    // Without O_NONBLOCK, opening a pipe would wait for a writer before fstat can tell that it is
    // one.
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.number < 0) throw failure(path, "cannot be opened", errno);

    struct stat info{};
    if (::fstat(file.number, &info) != 0) throw failure(path, "cannot be examined", errno);
    if (!S_ISREG(info.st_mode)) {
      throw Error(ErrorCode::kIo,
                  named(path) + (S_ISDIR(info.st_mode) ? ", a directory" : ", not a file"),
                  "a regular file", "give the path of the file itself");
    }
    if (info.st_size <= 0) {
      throw Error(ErrorCode::kIo, named(path) + ", an empty file", "at least one byte",
                  "was a download interrupted?");
    }
    if (static_cast<std::uint64_t>(info.st_size) > std::numeric_limits<std::size_t>::max()) {
      throw failure(path, "cannot be mapped", EFBIG);
    }

    const auto size = idx(info.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (address == MAP_FAILED) throw failure(path, "cannot be mapped", errno);
    MappedFile mapped(static_cast<const std::byte*>(address), size);
    mapped.facts_ = facts_of(info);
    return mapped;
  }

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        facts_(other.facts_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(facts_, other.facts_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }

  /// Empty for an object that maps nothing.
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Of the file when it was opened.
  const FileFacts& facts() const noexcept { return facts_; }

 private:
  /// The mapping outlives the descriptor, which is closed on every way out of open().
  struct Descriptor {
    int number;
    explicit Descriptor(int n) noexcept : number(n) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
      if (number >= 0) ::close(number);
    }
  };

  MappedFile(const std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}

  static FileFacts facts_of(const struct stat& info) noexcept {
    const auto nanoseconds = [](const timespec& time) {
      return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    return {.size = static_cast<std::uint64_t>(info.st_size),
            .inode = info.st_ino,
            .modified = nanoseconds(info.st_mtim),
            .changed = nanoseconds(info.st_ctim),
            .owner = info.st_uid,
            .mode = info.st_mode & 07777};
  }

  static std::string named(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

  /// The system's own text says most; unlike strerror, error_code is safe with threads.
  static Error failure(const std::filesystem::path& path, std::string_view what, int number) {
    const std::string reason = std::error_code(number, std::generic_category()).message();
    std::string_view hint = "check the path";
    if (number == EACCES) hint = "check the permissions of the file and of its folders";
    if (number == ENOMEM) {
      return Error(ErrorCode::kOutOfMemory, "no room in the address space for " + named(path),
                   "room for the whole file", "is the address space limited (ulimit -v)?");
    }
    return Error(ErrorCode::kIo, named(path) + ", which " + std::string(what) + ": " + reason,
                 "a readable file", hint);
  }

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FileFacts facts_;
};

}  // namespace foredraft::inline v0
