#include <cstdint>
#include <cstring>
#include <filesystem>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/io/vocabulary_reader.hpp>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

/// A vocabulary as a file's metadata.
struct Fields {
  fd::VocabularyData data;
  std::string model;
  std::function<void(fd::GgufWriter&)> more = [](fd::GgufWriter&) {};
  bool with_kinds = true;
};

fd::Vocabulary read(const Fields& fields) {
  fd::GgufWriter writer;
  if (!fields.model.empty()) writer.add("tokenizer.ggml.model", fields.model);
  writer.add_array("tokenizer.ggml.tokens", fields.data.texts);
  std::vector<std::int32_t> kinds;
  for (const fd::TokenKind kind : fields.data.kinds)
    kinds.push_back(static_cast<std::int32_t>(kind));
  if (fields.with_kinds) writer.add_array("tokenizer.ggml.token_type", kinds);
  if (!fields.data.scores.empty()) writer.add_array("tokenizer.ggml.scores", fields.data.scores);
  if (!fields.data.merges.empty()) writer.add_array("tokenizer.ggml.merges", fields.data.merges);
  if (!fields.data.pre.empty()) writer.add("tokenizer.ggml.pre", fields.data.pre);
  fields.more(writer);
  std::ostringstream out;
  writer.write(out);
  const std::string bytes = out.str();
  return fd::read_vocabulary(fd::Gguf::parse(std::as_bytes(std::span(bytes))));
}

std::optional<fd::ErrorCode> refusal(const Fields& fields) {
  try {
    read(fields);
    return std::nullopt;
  } catch (const fd::Error& error) {
    return error.code();
  }
}

Fields byte_level() { return {toy::byte_level({"a b"}), "gpt2"}; }
Fields sentence_piece() { return {toy::sentence_piece(), "llama"}; }

}  // namespace

TEST_CASE("a byte-level vocabulary is read") {
  Fields fields = byte_level();
  fields.more = [](fd::GgufWriter& writer) {
    writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    writer.add("tokenizer.ggml.eos_token_id", std::uint64_t{2});
    writer.add("tokenizer.ggml.eot_token_id", std::int32_t{3});
    writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{4});
    writer.add("tokenizer.ggml.padding_token_id", std::uint32_t{5});
    writer.add("tokenizer.chat_template", std::string("template"));
  };
  const fd::Vocabulary vocabulary = read(fields);  // the file's bytes are gone
  CHECK(vocabulary.type() == fd::VocabularyType::kByteLevel);
  CHECK(vocabulary.size() == 257);
  CHECK(vocabulary.piece(256) == "ab");
  CHECK(vocabulary.merges().size() == 1);
  CHECK(vocabulary.pre() == "gpt-2");
  CHECK(vocabulary.bos() == 1);
  CHECK(vocabulary.eos() == 2);
  CHECK(vocabulary.unknown() == 4);
  CHECK(vocabulary.padding() == 5);
  CHECK(vocabulary.is_end(2));
  CHECK(vocabulary.is_end(3));
  CHECK(vocabulary.chat_template() == "template");
  CHECK(!vocabulary.adds_bos());
  CHECK(!vocabulary.adds_space_prefix());
}

TEST_CASE("a SentencePiece vocabulary is read, with its defaults") {
  Fields fields = sentence_piece();
  const fd::Vocabulary plain = read(fields);
  CHECK(plain.type() == fd::VocabularyType::kSentencePiece);
  CHECK(plain.adds_space_prefix());
  CHECK(!plain.adds_bos());  // there is none
  fields.more = [](fd::GgufWriter& writer) {
    writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    writer.add("tokenizer.ggml.add_space_prefix", false);
  };
  CHECK(read(fields).adds_bos());
  CHECK(!read(fields).adds_space_prefix());
  fields.more = [](fd::GgufWriter& writer) {
    writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    writer.add("tokenizer.ggml.add_bos_token", false);
  };
  CHECK(!read(fields).adds_bos());
}

TEST_CASE("llama-bpe adds BOS by default") {
  Fields fields = byte_level();
  fields.data.pre = "llama-bpe";
  fields.more = [](fd::GgufWriter& writer) {
    writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  };
  CHECK(read(fields).adds_bos());
}

TEST_CASE("other tokenizers are not supported") {
  Fields fields = byte_level();
  for (const char* const model : {"", "bert", "t5", "rwkv"}) {
    fields.model = model;
    CHECK(refusal(fields) == fd::ErrorCode::kUnsupportedModel);
  }
}

TEST_CASE("ids at and far beyond the size are refused") {
  for (const std::uint32_t id : {257U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
    for (const char* const key : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
      Fields fields = byte_level();
      fields.more = [&](fd::GgufWriter& writer) {
        writer.add("tokenizer.ggml." + std::string(key) + "_token_id", id);
      };
      CHECK(refusal(fields) == fd::ErrorCode::kTokenOutOfRange);
    }
  }
}

TEST_CASE("tokens that the model may not write are read, and held to the vocabulary") {
  Fields fields = byte_level();
  CHECK(read(fields).suppressed().empty());
  const auto suppressing = [&](std::vector<std::int32_t> ids) {
    fields.more = [ids](fd::GgufWriter& w) { w.add_array("tokenizer.ggml.suppress_tokens", ids); };
    return fields;
  };
  const fd::Vocabulary vocabulary = read(suppressing({7, 3}));
  const auto suppressed = vocabulary.suppressed();
  CHECK(std::vector<fd::TokenId>(suppressed.begin(), suppressed.end()) ==
        std::vector<fd::TokenId>{7, 3});
  const auto n_vocab = static_cast<std::int32_t>(vocabulary.size());
  CHECK(refusal(suppressing({n_vocab})) == fd::ErrorCode::kTokenOutOfRange);
  CHECK(refusal(suppressing({-1})) == fd::ErrorCode::kTokenOutOfRange);
  CHECK(refusal(suppressing(std::vector<std::int32_t>(vocabulary.size() + 1))) ==
        fd::ErrorCode::kCorruptFile);
}

TEST_CASE("arrays of the wrong type or length are refused") {
  Fields fields = sentence_piece();
  const std::size_t n_vocab = fields.data.texts.size();
  fields.data.scores.clear();
  CHECK(refusal(fields) == fd::ErrorCode::kCorruptFile);
  fields.more = [&](fd::GgufWriter& writer) {
    writer.add_array("tokenizer.ggml.scores", std::vector<std::uint8_t>(n_vocab, 1));
  };
  CHECK(refusal(fields) == fd::ErrorCode::kCorruptFile);
  fields.more = [&](fd::GgufWriter& writer) {
    writer.add_array("tokenizer.ggml.scores", std::vector<float>(n_vocab - 1));
  };
  CHECK(refusal(fields) == fd::ErrorCode::kCorruptFile);

  for (const std::vector<std::int32_t>& kinds :
       {std::vector<std::int32_t>(256, 1), std::vector<std::int32_t>(257, 0),
        std::vector<std::int32_t>(257, 7), std::vector<std::int32_t>(257, -1),
        std::vector<std::int32_t>(257, 257)}) {
    fields = byte_level();
    fields.with_kinds = false;
    fields.more = [&](fd::GgufWriter& writer) {
      writer.add_array("tokenizer.ggml.token_type", kinds);
    };
    CHECK(refusal(fields) == fd::ErrorCode::kCorruptFile);
  }
  fields = byte_level();
  fields.data.texts.clear();
  CHECK(refusal(fields) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("token types may be narrow integers or absent") {
  Fields fields = byte_level();
  fields.with_kinds = false;
  CHECK(!refusal(fields));
  fields.more = [](fd::GgufWriter& writer) {
    writer.add_array("tokenizer.ggml.token_type", std::vector<std::uint8_t>(257, 1));
  };
  CHECK(!refusal(fields));
}

TEST_CASE("an array that a sparse file announces is refused before it is copied") {
  const TestFolder folder("sparse");
  for (const std::string key : {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"}) {
    fd::GgufWriter writer;
    writer.add("tokenizer.ggml.model", std::string("gpt2"));
    writer.add_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    writer.add_array(key, std::vector<std::uint8_t>{});
    std::vector<std::byte> bytes = writer.bytes();
    constexpr std::uint64_t kElements = std::uint64_t{1} << 40;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t count = text.find(key) + key.size() + 4 + 4;  // behind the two types
    std::memcpy(bytes.data() + count, &kElements, sizeof(kElements));
    const auto path = folder.path / "sparse.gguf";
    write_bytes(path, bytes);
    std::filesystem::resize_file(path, bytes.size() + kElements);
    try {
      fd::read_vocabulary(fd::Gguf::open(path));
      FAIL("was read");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kCorruptFile);
    }
  }
}
