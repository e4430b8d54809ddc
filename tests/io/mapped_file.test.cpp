#include <foredraft/io/mapped_file.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "support/catch.hpp"
#include "support/skip.hpp"

namespace fd = foredraft;
namespace fs = std::filesystem;

namespace {

/// A folder of its own for each test, gone at the end.
struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("foredraft.mapped_file." + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path file(const char* name, std::string_view content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return path / name;
  }
};

std::string_view text_of(const fd::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void check_refused(const fs::path& path, std::string_view reason) {
  INFO(path);
  try {
    fd::MappedFile::open(path);
    FAIL("opened");
  } catch (const fd::Error& e) {
    INFO(e.what());
    CHECK(e.code() == fd::ErrorCode::kIo);
    CHECK(e.found().find(path.string()) != std::string::npos);
    CHECK(e.found().find(reason) != std::string::npos);
    CHECK(!e.hint().empty());
  }
}

}  // namespace

TEST_CASE("a mapped file shows its bytes") {
  const Folder folder;
  fd::MappedFile file = fd::MappedFile::open(folder.file("a", "hello"));
  CHECK(text_of(file) == "hello");

  SECTION("and keeps them in place when it is moved") {
    const auto* const address = file.bytes().data();
    fd::MappedFile moved = std::move(file);
    CHECK(moved.bytes().data() == address);
    CHECK(text_of(moved) == "hello");
    CHECK(file.bytes().empty());  // NOLINT(bugprone-use-after-move): that it holds nothing
    fd::MappedFile other = fd::MappedFile::open(folder.file("b", "other"));
    other = std::move(moved);
    CHECK(other.bytes().data() == address);
    CHECK(text_of(other) == "hello");
  }
  SECTION("also after the file is gone from its folder") {
    fs::remove(folder.path / "a");
    CHECK(text_of(file) == "hello");
  }
  SECTION("and through a link") {
    fs::create_symlink(folder.path / "a", folder.path / "link");
    CHECK(text_of(fd::MappedFile::open(folder.path / "link")) == "hello");
  }
}

TEST_CASE("what the system says of a file when it is opened") {
  const Folder folder;
  const fs::path path = folder.file("a", "hello");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  const fd::MappedFile file = fd::MappedFile::open(path);
  const fd::FileFacts first = file.facts();
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(first.size == 5);
  CHECK(first.inode == info.st_ino);
  CHECK(first.owner == ::geteuid());
  CHECK(first.mode == 0640);
  CHECK(first.modified == std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec);

  // Another text of the same length, and the time set back: the time of change tells.
  ::usleep(20'000);  // longer than file systems' clocks tick
  folder.file("a", "HELLO");
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  const timespec times[] = {info.st_atim, info.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  const fd::FileFacts second = fd::MappedFile::open(path).facts();
  CHECK(second.size == first.size);
  CHECK(second.modified == first.modified);
  CHECK(second.changed > first.changed);

  // They are those of the opening, and move with the mapping.
  CHECK(file.facts().changed == first.changed);
  fd::MappedFile moved = fd::MappedFile::open(path);
  const fd::MappedFile other = std::move(moved);
  CHECK(other.facts().inode == first.inode);
}

TEST_CASE("an object that maps nothing is empty") {
  const fd::MappedFile none;
  CHECK(none.bytes().empty());
}

TEST_CASE("what cannot be mapped is named, with the system's reason") {
  const Folder folder;
  check_refused(folder.path / "missing", "No such file");
  check_refused(folder.path, "directory");
  check_refused(folder.file("empty", ""), "empty");
  check_refused("/dev/null", "not a file");
  check_refused(folder.file("plain", "x") / "below", "Not a directory");
  check_refused("", "No such file");

  // Opening a pipe must not wait for somebody to write into it.
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_refused(pipe, "not a file");
}

TEST_CASE("a file that the address space has no room for is a matter of memory") {
  // No disk holds such a file, but one without blocks may have any size.
  const int file = ::memfd_create("huge", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(::ftruncate(file, off_t{1} << 60) == 0);
  try {
    (void)fd::MappedFile::open("/proc/self/fd/" + std::to_string(file));
    FAIL("it was mapped");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kOutOfMemory);
    CHECK(error.hint().find("ulimit -v") != std::string::npos);
  }
  ::close(file);
}

TEST_CASE("a file without permission is refused") {
  const Folder folder;
  const fs::path secret = folder.file("secret", "x");
  REQUIRE(::chmod(secret.c_str(), 0) == 0);
  // Root may read everything, so this test becomes nobody for a moment.
  const bool root = ::geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (root && ::seteuid(kNobody) != 0) return skip("root cannot become another user here");
  check_refused(secret, "Permission denied");
  if (root) REQUIRE(::seteuid(0) == 0);
}
