#include <foredraft/model/packed_weights.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/model/load.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/layer_matrices.hpp"
#include "support/load_reference.hpp"
#include "support/skip.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;
namespace fs = std::filesystem;
using fd::cpu::PackedMatrix;

namespace {

const TinyModel kModel{.type = fd::TensorType::kQ5_0, .tied = false};

/// All packed bytes of a model, one matrix after the other.
std::vector<std::byte> bytes_of(const fd::ModelWeights<fd::Cpu>& weights) {
  std::vector<std::byte> all;
  const auto add = [&](const PackedMatrix& m) {
    all.insert(all.end(), m.panels().data, m.panels().data + m.bytes());
  };
  add(weights.embedding);
  if (weights.head) add(*weights.head);
  for (const auto& layer : weights.layers) {
    for (const PackedMatrix* matrix : layer_matrices(layer)) add(*matrix);
    const auto* net = std::get_if<fd::GatedDeltaNetWeights<fd::Cpu>>(&layer.recurrent);
    if (net == nullptr) continue;
    for (const PackedMatrix* m : {&net->qkv, &net->gate, &net->beta, &net->alpha, &net->out})
      add(*m);
  }
  return all;
}

/// A folder with a model, and loading of it.
struct Setup {
  TestFolder folder{"packed_weights"};
  fs::path model = folder.path / "model.gguf";
  fs::path packed = folder.path / "model.gguf.packed";
  fd::Cpu cpu{{.threads = 2}};
  int n_vocab = kModel.n_vocab;
  std::string note;

  Setup() { write_bytes(model, kModel.file()); }

  fd::ModelWeights<fd::Cpu> weights(std::vector<fs::path> places) {
    const fd::Gguf file = fd::Gguf::open(model);
    fd::ModelConfig config = fd::read_config(file);
    config.n_vocab = n_vocab;
    note.clear();
    const fd::LoadOptions options{.packed_files = std::move(places),
                                  .note = [&](const std::string& text) { note += text; }};
    return options.packed_files.empty() ? fd::read_weights(cpu, file, config, options)
                                        : fd::read_weights_packed(cpu, file, config, options);
  }

  std::vector<std::byte> plain() { return bytes_of(weights({})); }
  std::vector<std::byte> cached() { return bytes_of(weights({packed})); }
  bool noted(std::string_view text) const { return note.find(text) != std::string::npos; }
};

}  // namespace

TEST_CASE("the second start maps what the first one wrote, and computes the same") {
  Setup s;
  const auto plain = s.plain();
  CHECK(s.note.empty());
  CHECK(s.cached() == plain);
  CHECK(s.note == "packed weights written to '" + s.packed.string() + "'");
  CHECK(s.folder.names().size() == 2);
  const auto file = read_bytes(s.packed);
  CHECK(s.cached() == plain);
  CHECK(s.note.empty());  // neither written nor refused
  CHECK(read_bytes(s.packed) == file);

  // Mapped weights outlive the file's name; a model computes the same logits with them.
  const auto logits = [&](const fd::LoadOptions& options) {
    auto model = fd::load(s.cpu, s.model, options);
    fs::remove(s.packed);
    fd::LinearCache<float> cache(model.shape(), 8);
    const std::vector<fd::Node> nodes{{7, -1}, {42, 0}, {300, 1}};
    cache.stage(nodes);
    fd::Scores scores;
    fd::Request<fd::LinearCache<float>> request{&cache, 0, 3, {fd::RowNeed::kLogits, {}}, &scores};
    model.forward(std::span(&request, 1));
    std::vector<float> all;
    for (int row = 0; row < 3; ++row) {
      const auto values = std::as_const(scores).logits(row);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const auto mapped = logits({.packed_files = {s.packed}});
  CHECK(!fs::exists(s.packed));
  CHECK(logits({}) == mapped);
}

TEST_CASE("every format goes through a packed file") {
  for (const auto type : kernels_under_test::kTypes) {
    CAPTURE(fd::layout_of(type)->name);
    Setup s;
    const bool k_quant = fd::quant_geometry(type).elements == 256;
    write_bytes(
        s.model,
        TinyModel{.type = type, .d_model = k_quant ? 256 : 64, .d_ff = k_quant ? 256 : 96}.file());
    const auto plain = s.plain();
    CHECK(s.cached() == plain);
    CHECK(s.cached() == plain);
    CHECK(s.note.empty());
  }
}

TEST_CASE("matrices that share a tensor go through a packed file") {
  for (const TinyModel& tiny : {TinyModel{.family = "phi3"}, TinyModel{.family = "qwen3moe"},
                                TinyModel{.family = "qwen3moe", .one_tensor_of_experts = true},
                                TinyModel{.family = "qwen35"}, TinyModel{.family = "qwen3next"}}) {
    CAPTURE(tiny.family, tiny.one_tensor_of_experts);
    Setup s;
    write_bytes(s.model, tiny.file());
    const auto plain = s.plain();
    CHECK(s.cached() == plain);
    CHECK(s.cached() == plain);
    CHECK(s.note.empty());
  }
}

TEST_CASE("damage in any matrix is found, and the file made anew") {
  Setup s;
  const auto plain = s.plain();
  (void)s.cached();
  const auto sound = read_bytes(s.packed);
  fd::PackedHead head;
  std::memcpy(&head.header, sound.data(), sizeof(head.header));
  REQUIRE(head.header.n_matrices == 16);
  head.entries.resize(head.header.n_matrices);
  std::memcpy(head.entries.data(), sound.data() + sizeof(head.header),
              16 * sizeof(fd::PackedEntry));
  for (const fd::PackedEntry& entry : head.entries) {
    for (const std::size_t at : {std::size_t{0}, entry.bytes / 2, entry.bytes - 1}) {
      auto bytes = sound;
      bytes[entry.offset + at] ^= std::byte{4};
      write_bytes(s.packed, bytes);
      CHECK(s.cached() == plain);
      CHECK(s.noted("it is damaged"));
      CHECK(read_bytes(s.packed) == sound);
    }
  }
}

TEST_CASE("damage in a large matrix is found in any piece of it that is summed up alone") {
  Setup s;
  const TinyModel large{.type = fd::TensorType::kF32, .n_layers = 1, .n_vocab = 9000};
  write_bytes(s.model, large.file());
  s.n_vocab = large.n_vocab;
  const auto plain = s.plain();
  (void)s.cached();
  const auto sound = read_bytes(s.packed);
  fd::PackedEntry table;  // the embedding: the first matrix
  std::memcpy(&table, sound.data() + sizeof(fd::PackedHeader), sizeof(table));
  REQUIRE(table.bytes > 2 * fd::kChecksumPiece);
  for (std::size_t at = 0; at < table.bytes; at += fd::kChecksumPiece) {
    auto bytes = sound;
    bytes[table.offset + at] ^= std::byte{4};
    write_bytes(s.packed, bytes);
    CHECK((s.cached() == plain));
    CHECK(s.noted("it is damaged"));
  }
}

TEST_CASE("what is no packed file of this model is replaced") {
  Setup s;
  const auto plain = s.plain();
  (void)s.cached();
  const auto sound = read_bytes(s.packed);
  const auto replaced = [&](const std::vector<std::byte>& bytes, std::string_view reason) {
    write_bytes(s.packed, bytes);
    CHECK(s.cached() == plain);
    CAPTURE(s.note);
    CHECK(s.noted(reason));
    CHECK(s.noted("written to"));
    CHECK(read_bytes(s.packed) == sound);
  };
  auto bytes = sound;
  bytes[8 + 4] ^= std::byte{1};
  replaced(bytes, "it is of another version");
  bytes = sound;
  bytes.resize(sound.size() / 2);
  replaced(bytes, "it is cut off");
  replaced(read_bytes(s.model), "it is another format");
  replaced({}, "it cannot be read");
}

TEST_CASE("a model that was replaced never meets the weights of the old one") {
  Setup s;
  (void)s.cached();
  struct stat before{};
  REQUIRE(::stat(s.model.c_str(), &before) == 0);
  TinyModel other = kModel;
  other.seed = 2;  // the same header and size, other weights
  const auto old_bytes = read_bytes(s.model);
  const auto new_bytes = other.file();
  REQUIRE(old_bytes.size() == new_bytes.size());

  SECTION("in place, with its time set back") {
    ::usleep(20'000);  // longer than file systems' clocks tick
    write_bytes(s.model, new_bytes);
    const timespec times[] = {before.st_atim, before.st_mtim};
    REQUIRE(::utimensat(AT_FDCWD, s.model.c_str(), times, 0) == 0);
  }
  SECTION("by renaming") {
    write_bytes(s.folder.path / "new", new_bytes);
    fs::rename(s.folder.path / "new", s.model);
  }
  const auto found = s.cached();
  CHECK(s.noted("the model has changed"));
  CHECK(found == s.plain());
  CHECK(s.cached() == found);
  CHECK(s.note.empty());
}

TEST_CASE("whoever may not read the model may not read its packed file") {
  Setup s;
  for (const mode_t mode : {0600, 0640, 0444}) {
    fs::remove(s.packed);
    REQUIRE(::chmod(s.model.c_str(), mode) == 0);
    (void)s.cached();
    struct stat made{};
    REQUIRE(::stat(s.packed.c_str(), &made) == 0);
    CHECK((made.st_mode & 0777) == mode);
  }
}

TEST_CASE("the first place that can be written is taken, and read again") {
  Setup s;
  const auto plain = s.plain();
  const fs::path missing = s.folder.path / "no folder" / "x.packed";
  const fs::path second = s.folder.path / "made" / "on demand" / "x.packed";
  CHECK(bytes_of(s.weights({missing, second})) == plain);
  CHECK(s.note == "packed weights written to '" + second.string() + "'");
  CHECK(bytes_of(s.weights({missing, second})) == plain);
  CHECK(s.note.empty());
  // None: said, and loaded all the same.
  CHECK(bytes_of(s.weights({missing})) == plain);
  CHECK(s.noted("cannot be written to"));
  CHECK(s.noted("No such file"));
}

TEST_CASE("a folder that cannot be written is passed over") {
  Setup s;
  const auto plain = s.plain();
  const fs::path closed = s.folder.path / "closed";
  const fs::path open = s.folder.path / "open";
  fs::create_directories(closed);
  fs::create_directories(open);
  REQUIRE(::chmod(open.c_str(), 0777) == 0);
  REQUIRE(::chmod(closed.c_str(), 0555) == 0);
  // Root may write everywhere, so this test becomes nobody for a moment.
  const bool root = ::geteuid() == 0;
  if (root && ::seteuid(65534) != 0) return skip("root cannot become another user here");
  const auto found = bytes_of(s.weights({closed / "x", open / "x"}));
  const std::string note = s.note;
  const auto again = bytes_of(s.weights({closed / "x", open / "x"}));
  const std::string second_note = s.note;
  if (root) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::chmod(closed.c_str(), 0755) == 0);
  CHECK(found == plain);
  CHECK(again == plain);
  CHECK(note == "packed weights written to '" + (open / "x").string() + "'");
  CHECK(second_note.empty());
}

TEST_CASE("a packed file of another user is not believed") {
  if (::geteuid() != 0) return skip("only root can give files away");
  Setup s;
  const auto plain = s.plain();
  (void)s.cached();
  REQUIRE(::chown(s.packed.c_str(), 12345, 12345) == 0);
  CHECK(s.cached() == plain);
  CHECK(s.noted("it belongs to another user"));
  // Whose the model is, theirs may be its packed file.
  REQUIRE(::chown(s.model.c_str(), 12345, 12345) == 0);
  (void)s.cached();
  REQUIRE(::chown(s.packed.c_str(), 12345, 12345) == 0);
  CHECK(s.cached() == plain);
  CHECK(s.note.empty());
}

TEST_CASE("several writers and readers at once all have the right weights") {
  Setup s;
  const auto plain = s.plain();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      fd::Cpu cpu{{.threads = 1}};
      const fd::Gguf file = fd::Gguf::open(s.model);
      fd::ModelConfig config = fd::read_config(file);
      config.n_vocab = kModel.n_vocab;
      for (int round = 0; round < 10; ++round) {
        const auto weights =
            fd::read_weights_packed(cpu, file, config, {.packed_files = {s.packed}});
        if (i == 0) fs::remove(s.packed);
        if (bytes_of(weights) != plain) ++wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
  CHECK(s.cached() == plain);
  CHECK(s.folder.names().size() == 2);  // nothing half made is left
}

TEST_CASE("a packed file that would have no effect is an error") {
  Setup s;
  const auto code = [](auto&& action) {
    try {
      action();
    } catch (const fd::Error& error) {
      return error.code();
    }
    return fd::ErrorCode::kIo;
  };
  const auto kInvalid = fd::ErrorCode::kInvalidOption;
  CHECK(code([&] {
          fd::load(s.cpu, s.model,
                   {.requantize = fd::TensorType::kQ4_0, .packed_files = {s.packed}});
        }) == kInvalid);
  CHECK(code([&] { fd::load(s.cpu, s.model, {.head_tokens = 300, .packed_files = {s.packed}}); }) ==
        kInvalid);
  const auto bytes = kModel.file();
  CHECK(code([&] { fd::load(s.cpu, fd::Gguf::parse(bytes), {.packed_files = {s.packed}}); }) ==
        kInvalid);
  fd::Reference reference;
  CHECK(code([&] { fd::load(reference, s.model, {.packed_files = {s.packed}}); }) == kInvalid);
  CHECK(!fs::exists(s.packed));
}

TEST_CASE("the usual places: beside the model, then the user's cache") {
  REQUIRE(::setenv("XDG_CACHE_HOME", "/cache", 1) == 0);
  const auto a = fd::packed_file_places("/models/a/x.gguf");
  const auto b = fd::packed_file_places("/models/b/x.gguf");
  REQUIRE(a.size() == 2);
  CHECK(a[0] == "/models/a/x.gguf.packed");
  CHECK(a[1].parent_path() == "/cache/foredraft/packed");
  CHECK(a[1].filename().string().substr(0, 7) == "x.gguf-");
  CHECK(a[1] != b[1]);
  CHECK(fd::packed_file_places("/models/b/../a/x.gguf")[1] == a[1]);

  REQUIRE(::unsetenv("XDG_CACHE_HOME") == 0);
  REQUIRE(::setenv("HOME", "/users/me", 1) == 0);
  CHECK(fd::packed_file_places("x.gguf")[0] == "x.gguf.packed");
  CHECK(fd::packed_file_places("x.gguf")[1].parent_path() == "/users/me/.cache/foredraft/packed");
  REQUIRE(::unsetenv("HOME") == 0);
  CHECK(fd::packed_file_places("x.gguf").size() == 1);
}
