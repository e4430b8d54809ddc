#include <foredraft/model/packed_file.hpp>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/core/error.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// A small model in a file, its matrices, and a packed file with noise in place of panels.
struct Written {
  TestFolder folder{"packed_file"};
  std::filesystem::path path = folder.path / "model.packed";
  fd::Gguf model;
  std::vector<fd::TensorView> views;
  std::vector<std::vector<std::byte>> panels;

  Written() : model(open(folder)) {
    for (const auto& tensor : model.tensors()) {
      if (tensor.shape.size() == 2) views.push_back(model.view(tensor));
    }
    fd::PackedHead head = plan();
    std::vector<std::span<const std::byte>> parts;
    for (auto& entry : head.entries) {
      panels.emplace_back(entry.bytes, static_cast<std::byte>(panels.size() + 1));
      entry.checksum = fd::checksum(panels.back());
    }
    for (const auto& part : panels) parts.emplace_back(part);
    fd::write_packed_file(path, head, parts, 0640);
  }

  static fd::Gguf open(const TestFolder& folder) {
    write_bytes(folder.path / "model.gguf", TinyModel{.n_layers = 1}.file());
    return fd::Gguf::open(folder.path / "model.gguf");
  }

  fd::PackedHead plan() const { return fd::plan_packed_file<fd::cpu::PackedMatrix>(model, views); }

  /// What is wrong with these bytes as a packed file.
  std::string difference(const std::vector<std::byte>& bytes) const {
    write_bytes(folder.path / "other", bytes);
    fd::PackedHead expected = plan();
    return fd::difference(fd::MappedFile::open(folder.path / "other"), expected);
  }

  std::size_t head_bytes() const {
    return sizeof(fd::PackedHeader) + views.size() * sizeof(fd::PackedEntry);
  }

  /// Give the head of these bytes the checksum that fits it, as a forger would.
  void sign(std::vector<std::byte>& bytes) const {
    fd::PackedHead head;
    std::memcpy(&head.header, bytes.data(), sizeof(head.header));
    head.entries.resize(views.size());
    std::memcpy(head.entries.data(), bytes.data() + sizeof(head.header),
                views.size() * sizeof(fd::PackedEntry));
    head.header.checksum = head.sum();
    std::memcpy(bytes.data(), &head.header, sizeof(head.header));
  }
};

}  // namespace

TEST_CASE("a packed file says what was planned, and each matrix lies where it says") {
  const Written written;
  CHECK(written.folder.names().size() == 2);  // model and packed file, nothing else
  const fd::MappedFile file = fd::MappedFile::open(written.path);
  CHECK(file.facts().mode == 0640);
  fd::PackedHead head = written.plan();
  CHECK(fd::difference(file, head).empty());
  CHECK(head.header.file_bytes == file.bytes().size());
  REQUIRE(head.entries.size() == written.panels.size());
  for (std::size_t i = 0; i < head.entries.size(); ++i) {
    const fd::PackedEntry& entry = head.entries[i];
    CHECK(entry.offset % 4096 == 0);
    const auto part = file.bytes().subspan(entry.offset, entry.bytes);
    CHECK(std::equal(part.begin(), part.end(), written.panels[i].begin(), written.panels[i].end()));
    CHECK(entry.checksum == fd::checksum(written.panels[i]));
    const auto source = written.model.header_bytes().data() + entry.source;
    CHECK(source == written.views[i].data.data());
  }
}

TEST_CASE("every flipped bit before the matrices is found") {
  const Written written;
  const auto sound = read_bytes(written.path);
  REQUIRE(written.difference(sound).empty());
  std::size_t n_found = 0;
  for (std::size_t i = 0; i < written.head_bytes(); ++i) {
    auto bytes = sound;
    bytes[i] ^= static_cast<std::byte>(1u << i % 8);
    if (!written.difference(bytes).empty()) ++n_found;
  }
  CHECK(n_found == written.head_bytes());
}

TEST_CASE("a forged head is refused, whatever its checksum says") {
  const Written written;
  const auto sound = read_bytes(written.path);
  for (std::size_t i = 0; i < written.head_bytes(); ++i) {
    auto bytes = sound;
    bytes[i] ^= std::byte{0x80};
    written.sign(bytes);
    const std::size_t in_entry =
        i < sizeof(fd::PackedHeader) ? 0 : (i - sizeof(fd::PackedHeader)) % sizeof(fd::PackedEntry);
    // Only the checksum of a matrix may be anything: it is compared with the matrix.
    const bool of_matrix = in_entry >= offsetof(fd::PackedEntry, checksum);
    const bool of_head = i >= offsetof(fd::PackedHeader, checksum) && i < sizeof(fd::PackedHeader);
    CAPTURE(i);
    CHECK(written.difference(bytes).empty() == (of_matrix || of_head));
  }
}

TEST_CASE("a packed file is refused in words") {
  const Written written;
  const auto sound = read_bytes(written.path);
  const auto changed = [&](auto&& change) {
    auto bytes = sound;
    fd::PackedHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    change(header);
    std::memcpy(bytes.data(), &header, sizeof(header));
    written.sign(bytes);
    return written.difference(bytes);
  };
  CHECK(changed([](fd::PackedHeader& h) { h.magic[0] = 'X'; }) == "it is another format");
  CHECK(changed([](fd::PackedHeader& h) { h.byte_order = 0x04030201; }) ==
        "it has another byte order");
  CHECK(changed([](fd::PackedHeader& h) { ++h.version; }) == "it is of another version");
  CHECK(changed([](fd::PackedHeader& h) { ++h.layout; }) == "it is of another version");
  const std::string other = "it belongs to another model, or the model has changed";
  CHECK(changed([](fd::PackedHeader& h) { ++h.model_bytes; }) == other);
  CHECK(changed([](fd::PackedHeader& h) { ++h.model_inode; }) == other);
  CHECK(changed([](fd::PackedHeader& h) { ++h.model_modified; }) == other);
  CHECK(changed([](fd::PackedHeader& h) { ++h.model_changed; }) == other);
  CHECK(changed([](fd::PackedHeader& h) { ++h.model_header; }) == other);
  CHECK(changed([](fd::PackedHeader& h) { h.n_matrices = ~std::uint64_t{0}; }) ==
        "it lists other matrices");
  CHECK(changed([](fd::PackedHeader& h) { h.file_bytes = ~std::uint64_t{0}; }) ==
        "it lists other matrices");

  auto bytes = sound;  // two entries in the other order, each with its own checksum
  std::swap_ranges(bytes.begin() + sizeof(fd::PackedHeader),
                   bytes.begin() + sizeof(fd::PackedHeader) + sizeof(fd::PackedEntry),
                   bytes.begin() + sizeof(fd::PackedHeader) + sizeof(fd::PackedEntry));
  CHECK(written.difference(bytes) == "it is damaged");
  written.sign(bytes);
  CHECK(written.difference(bytes) == "it lists other matrices");
}

TEST_CASE("a packed file that is cut off anywhere, or longer, is refused") {
  const Written written;
  const auto sound = read_bytes(written.path);
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= written.head_bytes(); ++size) sizes.push_back(size);
  for (const fd::PackedEntry& entry : written.plan().entries) {
    for (const std::size_t size : {entry.offset - 1, entry.offset, entry.offset + 1,
                                   entry.offset + entry.bytes - 1, entry.offset + entry.bytes}) {
      if (size < sound.size()) sizes.push_back(size);
    }
  }
  for (const std::size_t size : sizes) {
    CAPTURE(size);
    auto bytes = sound;
    bytes.resize(size);
    CHECK(written.difference(bytes).substr(0, 13) == "it is cut off");
  }
  auto longer = sound;
  longer.push_back({});
  CHECK(written.difference(longer) == "it is cut off, or too long");
}

TEST_CASE("a model that is no file has no packed file") {
  const auto bytes = TinyModel{}.file();
  try {
    (void)fd::plan_packed_file<fd::cpu::PackedMatrix>(fd::Gguf::parse(bytes), {});
    FAIL("planned");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidOption);
  }
}

TEST_CASE("where a packed file cannot be written whole, nothing is left and nothing is lost") {
  const Written written;
  const auto sound = read_bytes(written.path);
  // A limit on the size of files acts as a full disk does: a write fails in the middle.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::vector<std::span<const std::byte>> parts(written.panels.begin(), written.panels.end());
  CHECK_THROWS_AS(fd::write_packed_file(written.path, written.plan(), parts, 0644),
                  std::system_error);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(written.folder.names().size() == 2);
  CHECK(read_bytes(written.path) == sound);

  CHECK_THROWS_AS(
      fd::write_packed_file(written.folder.path / "missing" / "x", written.plan(), parts, 0644),
      std::system_error);
  std::filesystem::create_directories(written.folder.path / "taken" / "by a folder");
  CHECK_THROWS_AS(fd::write_packed_file(written.folder.path / "taken", written.plan(), parts, 0644),
                  std::system_error);
  CHECK(written.folder.names().size() == 3);
}
