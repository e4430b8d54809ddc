#include <foredraft/model/load.hpp>

#include <cstring>
#include <string>
#include <vector>

#include <foredraft/io/gguf_writer.hpp>

#include "support/catch.hpp"
#include "support/load_reference.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// Code with which a file is refused, "none" where it loads.
std::string_view refused(std::span<const std::byte> bytes) {
  fd::Reference backend;
  try {
    fd::load(backend, fd::Gguf::parse(bytes));
  } catch (const fd::Error& error) {
    return fd::name_of(error.code());
  }
  return "none";
}

/// Rename a tensor in the bytes of a file to a name of the same length.
std::vector<std::byte> renamed(std::vector<std::byte> bytes, std::string_view from,
                               std::string_view to) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const std::size_t at = std::string_view(begin, bytes.size()).find(from);
  REQUIRE(at != std::string_view::npos);
  for (std::size_t i = 0; i < to.size(); ++i) bytes[at + i] = static_cast<std::byte>(to[i]);
  return bytes;
}

}  // namespace

TEST_CASE("a model is loaded with its vocabulary, reporting progress to the end") {
  TinyModel tiny;
  tiny.tied = false;
  const auto bytes = tiny.file();
  fd::Reference backend;
  std::size_t done = 0, total = 1;
  const auto note = [&](std::size_t d, std::size_t t) {
    CHECK(d > done);
    done = d;
    total = t;
  };
  auto model = fd::load(backend, fd::Gguf::parse(bytes), {.progress = note});
  CHECK(done == total);
  CHECK(model.vocab_size() == 307);
  CHECK(model.piece('A') == "A");
  CHECK(model.is_end(256));
  CHECK(!model.is_end('A'));
  CHECK(model.shape().layers.size() == 2);
}

TEST_CASE("a file whose tensors match a product that wraps is refused") {
  TinyModel tiny;
  tiny.type = fd::TensorType::kF16;
  tiny.n_layers = 1;
  tiny.d_model = tiny.d_ff = 2;
  tiny.n_heads = tiny.n_kv_heads = 1;
  tiny.d_head = 65534;  // 65535 * 65538 in 32 bits
  const auto bytes = tiny.file();
  CHECK(refused(bytes) == "none");
  const auto with = [](std::vector<std::byte> file, std::string_view key, std::uint32_t value) {
    const auto* begin = reinterpret_cast<const char*>(file.data());
    const std::size_t at = std::string_view(begin, file.size()).find(key);
    std::memcpy(file.data() + at + key.size() + 4, &value, sizeof(value));  // behind the type
    return file;
  };
  auto hostile = with(bytes, "llama.attention.head_count", 65535);
  hostile = with(hostile, "llama.attention.key_length", 65538);
  hostile = with(hostile, "llama.attention.value_length", 65538);
  CHECK(refused(hostile) == "corrupt-file");
}

TEST_CASE("a file that contradicts itself is refused") {
  const auto bytes = TinyModel{}.file();
  CHECK(refused(bytes) == "none");
  CHECK(refused(renamed(bytes, "blk.1.ffn_up.weight", "blk.1.ffn_uq.weight")) == "shape-mismatch");
  CHECK(refused(renamed(bytes, "output_norm.weight", "output_nurm.weight")) == "shape-mismatch");
  CHECK(refused(renamed(bytes, "general.architecture", "general.architectura")) ==
        "unsupported-model");

  TinyModel wide;
  wide.d_ff = 128;
  const auto other = wide.file();
  // The metadata of one model in front of the tensors of another.
  fd::GgufWriter mixed;
  const fd::Gguf a = fd::Gguf::parse(bytes), b = fd::Gguf::parse(other);
  for (const auto& entry : a.metadata()) mixed.add(entry.key, entry.value);
  for (const auto& tensor : b.tensors())
    mixed.add_tensor(tensor.name, tensor.type, tensor.shape, tensor.data);
  CHECK(refused(mixed.bytes()) == "shape-mismatch");
}

TEST_CASE("a missing file is an io error") {
  fd::Reference backend;
  try {
    fd::load(backend, std::filesystem::path("/nonexistent/model.gguf"));
    FAIL("loaded a file that is not there");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kIo);
  }
}

TEST_CASE("a model that is to draft gets Q4_0, and of a large vocabulary the frequent tokens") {
  const auto options = [](std::size_t n_tokens, fd::TensorType type = fd::TensorType::kF16) {
    fd::GgufWriter file;
    file.add_array("tokenizer.ggml.tokens", std::vector<std::string>(n_tokens, "a"));
    const std::vector<std::byte> row(fd::row_bytes(type, 32).value());
    file.add_tensor("blk.0.ffn_up.weight", type, {32, 1}, row);
    const auto bytes = file.bytes();
    return fd::drafting_options(fd::Gguf::parse(bytes));
  };
  // Where that makes nothing smaller, as it is.
  CHECK_FALSE(options(300, fd::TensorType::kQ4_0).requantize);
  for (const std::size_t n_tokens : {300, 65'535, 65'536, 151'936}) {
    CAPTURE(n_tokens);
    CHECK(options(n_tokens).requantize == fd::TensorType::kQ4_0);
    CHECK(options(n_tokens).head_tokens == (n_tokens >= 65'536 ? 32'768 : 0));
  }
  const auto without_tokens = fd::GgufWriter().bytes();
  CHECK(fd::drafting_options(fd::Gguf::parse(without_tokens)).head_tokens == 0);
}
