// Fuzzing packed files: the one of a small model, changed at will. A file that differs in anything
// but its padding is refused, said so and made anew; no damaged weight is ever used.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/packed_weights.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"
#include "fuzz/fuzz_main.hpp"
#include "fuzz/small_model.hpp"
#include "support/files.hpp"
#include "support/layer_matrices.hpp"

namespace {

namespace fd = foredraft;
namespace fs = std::filesystem;
using fuzz::Bytes;
using fuzz::Choices;
using fuzz::demand;

/// A model with its packed file, in a folder of $TMPDIR: best one in memory.
class Packed {
 public:
  Packed() {
    write_bytes(model_, fuzz::small_model({}));
    plain_ = bytes_of({});
    fs::remove(packed_);
    demand(bytes_of({packed_}) == plain_, "the first start");
    sound_ = read_bytes(packed_);
    demand(bytes_of({packed_}) == plain_ && note_.empty(), "the second start");
  }
  const Bytes& sound() const { return sound_; }
  const fs::path& path() const { return packed_; }

  /// Start with what lies at path().
  /// @param same  it differs from the sound file in padding at most
  void check(bool same) {
    demand(bytes_of({packed_}) == plain_, "damaged weights are used");
    demand(note_.empty() == same, "a changed file is believed, or a sound one is not: " + note_);
    demand(same || read_bytes(packed_) == sound_, "it is not made anew");
  }

  /// Whether a byte is padding between table and matrices, or behind a matrix.
  bool padding(std::size_t at) const {
    fd::PackedHeader header;
    std::memcpy(&header, sound_.data(), sizeof(header));
    if (at < sizeof(header) + header.n_matrices * sizeof(fd::PackedEntry)) return false;
    for (std::size_t i = 0; i < header.n_matrices; ++i) {
      fd::PackedEntry entry;
      std::memcpy(&entry, sound_.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
      if (at >= entry.offset && at - entry.offset < entry.bytes) return false;
    }
    return true;
  }

 private:
  /// All packed bytes of the model, one matrix after the other.
  Bytes bytes_of(std::vector<fs::path> places) {
    const fd::Gguf file = fd::Gguf::open(model_);
    fd::ModelConfig config = fd::read_config(file);
    config.n_vocab = static_cast<int>(file.get_strings("tokenizer.ggml.tokens")->size());
    note_.clear();
    const fd::LoadOptions options{.packed_files = std::move(places),
                                  .note = [&](const std::string& text) { note_ += text; }};
    const auto weights = options.packed_files.empty()
                             ? fd::read_weights(cpu_, file, config, options)
                             : fd::read_weights_packed(cpu_, file, config, options);
    Bytes all;
    const auto add = [&](const fd::cpu::PackedMatrix& m) {
      all.insert(all.end(), m.panels().data, m.panels().data + m.bytes());
    };
    add(weights.embedding);
    for (const auto& layer : weights.layers) {
      for (const auto* matrix : layer_matrices(layer)) add(*matrix);
    }
    return all;
  }

  TestFolder folder_{"fuzz"};
  fs::path model_ = folder_.path / "model.gguf";
  fs::path packed_ = folder_.path / "model.gguf.packed";
  fd::Cpu cpu_{{.threads = 1}};
  std::string note_;
  Bytes plain_;
  Bytes sound_;
};

/// Changes of a header, a table or a matrix.
void change(Bytes& bytes, Choices& choices) {
  static constexpr std::size_t kWithin[] = {sizeof(fd::PackedHeader), 1024, 1 << 30};
  const std::size_t within = std::min(choices.pick(kWithin), bytes.size());
  if (within == 0) return;
  const std::size_t at = choices.below(within);
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (choices.below(6)) {
    case 0: bytes[at] ^= static_cast<std::byte>(1u << choices.below(8)); break;
    case 1: {
      const auto number = choices.take<std::uint64_t>();
      std::memcpy(&*place, &number, std::min<std::size_t>(8, bytes.size() - at));
      break;
    }
    case 2: bytes.resize(at); break;
    case 3: bytes.resize(bytes.size() + choices.below(5000)); break;
    case 4: bytes.erase(place); break;
    case 5: bytes.insert(place, choices.take<std::byte>()); break;
  }
}

/// A table that was changed by someone who knows its checksum. Those of matrices stay: who forges
/// them, too, may make the model say anything (SECURITY.md).
void forge_sum(Bytes& bytes) {
  fd::PackedHead head;
  if (bytes.size() < sizeof(head.header)) return;
  std::memcpy(&head.header, bytes.data(), sizeof(head.header));
  const std::size_t room = (bytes.size() - sizeof(head.header)) / sizeof(fd::PackedEntry);
  head.entries.resize(std::min<std::size_t>(head.header.n_matrices, room));
  if (head.entries.empty()) return;
  std::memcpy(head.entries.data(), bytes.data() + sizeof(head.header),
              head.entries.size() * sizeof(fd::PackedEntry));
  head.header.checksum = head.sum();
  std::memcpy(bytes.data(), &head.header, sizeof(head.header));
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  static Packed packed;
  Choices choices(input);
  Bytes bytes = packed.sound();
  for (std::size_t n = choices.below(4); n > 0; --n) change(bytes, choices);
  if (choices.flag()) forge_sum(bytes);
  bool same = bytes.size() == packed.sound().size();
  for (std::size_t i = 0; same && i < bytes.size(); ++i) {
    same = bytes[i] == packed.sound()[i] || packed.padding(i);
  }
  write_bytes(packed.path(), bytes);
  packed.check(same);
  return same;
}

std::vector<fuzz::Bytes> fuzz::seeds() { return noise(32, 48); }
