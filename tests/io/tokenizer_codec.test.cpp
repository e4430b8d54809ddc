#include <foredraft/io/tokenizer_codec.hpp>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

std::string spelled(const fd::TextCodec& codec, const std::vector<fd::TokenId>& tokens) {
  std::string text;
  for (const fd::TokenId token : tokens) text += codec.piece(token);
  return text;
}

}  // namespace

TEST_CASE("pieces of a codec's tokens are the text, byte for byte") {
  fd::VocabularyData bytes = toy::byte_level({"a b", "c d"});
  toy::add(bytes, "<|end|>", fd::TokenKind::kControl);
  fd::VocabularyData pieces = toy::sentence_piece();
  for (const char* text : {"\xE2\x96\x81", "a",
                           "\xE2\x96\x81"
                           "a",
                           "b"}) {
    toy::add(pieces, text);
  }
  for (const fd::VocabularyData& data : {bytes, pieces}) {
    const fd::Tokenizer tokenizer{fd::Vocabulary(data)};
    const fd::TextCodec codec = fd::codec_of(tokenizer);
    CHECK(codec.n_vocab == static_cast<int>(data.texts.size()));
    for (const char* text : {"", "ab", " ab", "  a b  ", "b\na", "ab\xC3\xA9", "\xFF"}) {
      CAPTURE(text);
      CHECK(spelled(codec, codec.encode(text)) == text);
    }
  }
}

TEST_CASE("a text that goes on gets no space, and begins with no token of its own") {
  fd::VocabularyData data = toy::sentence_piece();
  const fd::TokenId marked = toy::add(data,
                                      "\xE2\x96\x81"
                                      "a");
  const fd::TokenId a = toy::add(data, "a");
  toy::add(data, "\xE2\x96\x81");
  const fd::Tokenizer tokenizer{fd::Vocabulary(data)};
  CHECK(tokenizer.encode("a") == std::vector<fd::TokenId>{marked});
  const fd::TextCodec codec = fd::codec_of(tokenizer);
  CHECK(codec.encode("a") == std::vector<fd::TokenId>{a});
  CHECK(codec.encode(" a") == std::vector<fd::TokenId>{marked});
  REQUIRE(codec.bos);
  CHECK(*codec.bos == 1);
}

TEST_CASE("names of control tokens are these tokens, in both directions") {
  fd::VocabularyData data = toy::byte_level({});
  const fd::TokenId end = toy::add(data, "<|end|>", fd::TokenKind::kControl);
  const fd::Tokenizer tokenizer{fd::Vocabulary(data)};
  const fd::TextCodec codec = fd::codec_of(tokenizer);
  CHECK(codec.piece(end) == "<|end|>");
  CHECK(codec.encode("a<|end|>b") == std::vector<fd::TokenId>{'a', end, 'b'});
  CHECK(!codec.bos);
}
