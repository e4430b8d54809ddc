// Every call to the system that opening and writing files is made of fails once, and fails from
// then on: an error or a model with the right weights, and never half a file.
//
// The calls are this program's own: what stands here under their names is what the headers find.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/packed_weights.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/layer_matrices.hpp"
#include "support/tiny_model.hpp"

namespace {

constexpr std::size_t kAll = SIZE_MAX;

/// What the calls below do: as the system does, but for some.
struct Calls {
  int before_failure = -1;  // calls that still succeed; below 0: all do
  int error = 0;
  bool stays = false;                      // all behind it fail, too
  std::size_t most_written = kAll;         // of one pwrite
  bool interrupted = false;                // every second pwrite
  std::set<std::string_view> failed = {};  // which were met

  bool fail(std::string_view name) {
    if (before_failure < 0 || before_failure-- > 0) return false;
    if (stays) before_failure = 0;
    failed.insert(name);
    errno = error;
    return true;
  }
};
Calls calls;

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) real<decltype(name)>(#name)

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);  // read by the system where it is wanted
  va_end(rest);
  return calls.fail("open") ? -1 : REAL(open)(path, flags, mode);
}
int fstat(int file, struct stat* info) noexcept {
  return calls.fail("fstat") ? -1 : REAL(fstat)(file, info);
}
void* mmap(void* at, std::size_t n, int prot, int flags, int file, off_t offset) noexcept {
  const bool fails = file >= 0 && calls.fail("mmap");
  return fails ? MAP_FAILED : REAL(mmap)(at, n, prot, flags, file, offset);
}
int fallocate(int file, int mode, off_t offset, off_t n) {
  return calls.fail("fallocate") ? -1 : REAL(fallocate)(file, mode, offset, n);
}
ssize_t pwrite(int file, const void* data, std::size_t n, off_t offset) {
  if (calls.fail("pwrite")) return -1;
  static bool second = false;
  if (calls.interrupted && (second = !second)) {
    errno = EINTR;
    return -1;
  }
  return REAL(pwrite)(file, data, std::min(n, calls.most_written), offset);
}
int fchmod(int file, mode_t mode) noexcept {
  return calls.fail("fchmod") ? -1 : REAL(fchmod)(file, mode);
}
int linkat(int from, const char* old, int to, const char* path, int flags) noexcept {
  return calls.fail("linkat") ? -1 : REAL(linkat)(from, old, to, path, flags);
}
int rename(const char* old, const char* path) noexcept {
  return calls.fail("rename") ? -1 : REAL(rename)(old, path);
}

}  // extern "C"

namespace fd = foredraft;
namespace fs = std::filesystem;

namespace {

const TinyModel kModel{.n_layers = 1, .n_vocab = 260};

/// A folder with a model, and loading of its weights through a packed file.
struct Setup {
  Setup() { write_bytes(model, kModel.file()); }

  std::vector<std::byte> weights(const fd::Gguf& file) {
    fd::ModelConfig config = fd::read_config(file);
    config.n_vocab = kModel.n_vocab;
    note.clear();
    const auto loaded = fd::read_weights_packed(
        cpu, file, config,
        {.packed_files = {packed}, .note = [&](const std::string& text) { note += text; }});
    std::vector<std::byte> all;
    const auto add = [&](const fd::cpu::PackedMatrix& m) {
      all.insert(all.end(), m.panels().data, m.panels().data + m.bytes());
    };
    add(loaded.embedding);
    for (const auto& layer : loaded.layers) {
      for (const auto* matrix : layer_matrices(layer)) add(*matrix);
    }
    return all;
  }
  std::vector<std::byte> weights() { return weights(fd::Gguf::open(model)); }

  /// The names of the files, in order.
  std::vector<std::string> names() const {
    auto found = folder.names();
    std::sort(found.begin(), found.end());
    return found;
  }
  bool noted(std::string_view text) const { return note.find(text) != std::string::npos; }

  TestFolder folder{"failing_files"};
  fs::path model = folder.path / "model.gguf";
  fs::path packed = folder.path / "model.gguf.packed";
  fd::Cpu cpu{{.threads = 1}};
  std::string note;
};

const std::vector<std::string> kModelAlone{"model.gguf"};
const std::vector<std::string> kBoth{"model.gguf", "model.gguf.packed"};

int open_files() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

/// attempt() with the first call failing, with the second, and so on until none fails, for each
/// error. It looks at `calls.failed` to see what happened.
template <typename Attempt>
std::set<std::string_view> fail_each(std::initializer_list<int> errors, Attempt&& attempt) {
  std::set<std::string_view> failed;
  for (const int error : errors) {
    for (const bool stays : {false, true}) {
      for (int n = 0;; ++n) {
        CAPTURE(error, stays, n);
        const int before = open_files();
        calls = {.before_failure = n, .error = error, .stays = stays};
        attempt();
        const auto now = std::exchange(calls, {}).failed;
        REQUIRE(open_files() == before);
        if (now.empty()) break;
        failed.insert(now.begin(), now.end());
      }
    }
  }
  return failed;
}

using Names = std::set<std::string_view>;

}  // namespace

TEST_CASE("a model file that the system fails to open is an error, and no descriptor is lost") {
  Setup s;
  const auto failed = fail_each({EIO, ENOMEM, EACCES, EMFILE, EINTR}, [&] {
    std::optional<fd::ErrorCode> code;
    try {
      (void)fd::Gguf::open(s.model);
    } catch (const fd::Error& error) {
      code = error.code();
      CHECK(error.found().find(s.model.string()) != std::string::npos);
    }
    REQUIRE(code.has_value() == !calls.failed.empty());
    if (code && calls.error != ENOMEM) CHECK(*code == fd::ErrorCode::kIo);
    if (code && calls.error == ENOMEM) CHECK(*code == fd::ErrorCode::kOutOfMemory);
  });
  CHECK(failed == Names{"open", "fstat", "mmap"});
}

TEST_CASE("packed weights that the system fails to read or write cost nothing but the file") {
  Setup s;
  const auto right = s.weights();
  const auto sound = read_bytes(s.packed);
  REQUIRE(!sound.empty());
  auto damaged = sound;
  damaged.back() ^= std::byte{1};

  const auto check = [&](const std::vector<std::byte>& before, const Names& expected) {
    const auto failed = fail_each({EIO, ENOMEM, ENOSPC, EDQUOT, EOPNOTSUPP}, [&] {
      const Calls plan = std::exchange(calls, {});
      fs::remove(s.packed);
      if (!before.empty()) write_bytes(s.packed, before);
      const fd::Gguf file = fd::Gguf::open(s.model);
      calls = plan;
      REQUIRE((s.weights(file) == right));
      const Calls met = std::exchange(calls, {});
      CAPTURE(s.note);

      // The old file or all of the new one, and nothing beside it.
      const bool there = fs::exists(s.packed);
      CHECK(s.names() == (there ? kBoth : kModelAlone));
      if (s.noted("cannot be written to '")) {
        CHECK(!met.failed.empty());
        CHECK((there ? read_bytes(s.packed) == before : before.empty()));
      } else if (s.noted("written to '")) {
        CHECK((read_bytes(s.packed) == sound));
      } else {
        CHECK(s.note.empty());  // it was read
        CHECK(met.failed.empty());
        CHECK((before == sound));
      }
      calls.failed = met.failed;
    });
    CHECK(failed == expected);
  };
  Names writing{"open", "fallocate", "pwrite", "fchmod", "linkat", "rename"};
  SECTION("none is there") { check({}, writing); }
  writing.insert({"fstat", "mmap"});
  SECTION("a damaged one is there") { check(damaged, writing); }
  // A call that fails once is one of those that read it.
  SECTION("one is there") { check(sound, {"open", "fstat", "mmap"}); }
}

TEST_CASE("a disk that is full, and one that takes nothing, leave nothing behind") {
  Setup s;
  const fd::Gguf file = fd::Gguf::open(s.model);
  calls = {.before_failure = 2, .error = ENOSPC, .stays = true};  // open, fallocate, and no more
  (void)s.weights(file);
  CHECK(std::exchange(calls, {}).failed == Names{"pwrite"});
  CHECK(s.noted("cannot be written to '"));
  CHECK(s.noted("No space left on device"));
  CHECK(s.names() == kModelAlone);

  calls = {.most_written = 0};
  (void)s.weights(file);
  calls = {};
  CHECK(s.noted("cannot be written to '"));
  CHECK(s.names() == kModelAlone);
}

TEST_CASE("writing goes on behind interruptions and with as much as the system takes") {
  Setup s;
  const auto right = s.weights();
  const auto sound = read_bytes(s.packed);
  for (const std::size_t most : {kAll, std::size_t{1000}}) {
    for (const bool interrupted : {false, true}) {
      fs::remove(s.packed);
      calls = {.most_written = most, .interrupted = interrupted};
      CHECK((s.weights() == right));
      calls = {};
      CHECK((read_bytes(s.packed) == sound));
      CHECK(s.names() == kBoth);
      CHECK((s.weights() == right));
      CHECK(s.note.empty());
    }
  }
}
