#include <foredraft/io/tokenizer.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

struct ByteLevel {
  fd::VocabularyData data = toy::byte_level({"a b", "\xC4\xA0 ab"});
  fd::TokenId start = toy::add(data, "<|im_start|>", fd::TokenKind::kControl);
  fd::TokenId tag = toy::add(data, "<tool>", fd::TokenKind::kUserDefined);
  fd::Tokenizer tokenizer{fd::Vocabulary(data)};
};

struct SentencePiece {
  fd::VocabularyData data = toy::sentence_piece();
  fd::TokenId mark = toy::add(data, "\xE2\x96\x81");
  fd::TokenId hi = toy::add(data, "hi");
  fd::TokenId spaced = toy::add(data, "\xE2\x96\x81hi");
  fd::TokenId h = toy::add(data, "h");
  fd::TokenId i = toy::add(data, "i");
  fd::Tokenizer tokenizer{fd::Vocabulary(data)};
};

/// Characters and merges of them, bytes as fallback.
struct MergedText {
  static fd::VocabularyData vocabulary() {
    fd::VocabularyData data = toy::sentence_piece();
    data.type = fd::VocabularyType::kMergedText;
    data.add_space_prefix = false;
    data.merges = {"a b", "b c", "\xE2\x96\x81 ab", "\n \n"};
    return data;
  }
  fd::VocabularyData data = vocabulary();
  fd::TokenId a = toy::add(data, "a");
  fd::TokenId b = toy::add(data, "b");
  fd::TokenId c = toy::add(data, "c");
  fd::TokenId mark = toy::add(data, "\xE2\x96\x81");
  fd::TokenId ab = toy::add(data, "ab");
  fd::TokenId bc = toy::add(data, "bc");
  fd::TokenId spaced = toy::add(data,
                                "\xE2\x96\x81"
                                "ab");
  fd::TokenId line = toy::add(data, "\n");
  fd::TokenId lines = toy::add(data, "\n\n");
  fd::TokenId three = toy::add(data, "\n\n\n");
  fd::TokenId channel = toy::add(data, "<|channel>", fd::TokenKind::kUserDefined);
  fd::Tokenizer tokenizer{fd::Vocabulary(data)};
};

}  // namespace

TEST_CASE_METHOD(MergedText,
                 "merged text: ranks of merges decide, spaces are marked, bytes help out") {
  CHECK(tokenizer.encode("abc") == Tokens{ab, c});  // not a, bc: "a b" is of lower rank
  CHECK(tokenizer.encode("bc ab b") == Tokens{bc, spaced, mark, b});
  CHECK(tokenizer.encode("a<|channel>") == Tokens{a, channel});
  CHECK(tokenizer.encode("a", {.add_bos = true}) == Tokens{1, a});
  // U+00E9 has no token: its two bytes, which begin at id 3.
  CHECK(tokenizer.encode("a\xC3\xA9") == Tokens{a, 3 + 0xC3, 3 + 0xA9});
  for (const std::string text : {"bc ab  b", "caf\xC3\xA9 \xFF ab", "a\n\nb \n"}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE_METHOD(MergedText,
                 "merged text: runs of line breaks are cut out, and whole where they are a token") {
  CHECK(tokenizer.encode("a\n\n\nb") == Tokens{a, three, b});  // which no merge makes
  CHECK(tokenizer.encode("\n\n\n\n") == Tokens{lines, lines});
  CHECK(tokenizer.encode("\n ab") == Tokens{line, spaced});
}

TEST_CASE_METHOD(ByteLevel, "byte-level text is cut, merged and put together again") {
  CHECK(tokenizer.encode("ab ab") == Tokens{256, 257});
  CHECK(tokenizer.decode(Tokens{256, 257}) == "ab ab");
  CHECK(tokenizer.piece(257) == " ab");
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE_METHOD(ByteLevel, "control tokens are parsed on request, user-defined ones always") {
  const std::string text = "ab<|im_start|>ab<tool>";
  CHECK(tokenizer.encode(text, {.parse_special = true}) == Tokens{256, start, 256, tag});
  const Tokens plain = tokenizer.encode(text);
  CHECK(plain.size() == 1 + 12 + 1 + 1);
  CHECK(plain.back() == tag);
  CHECK(tokenizer.decode(plain) == text);
  CHECK(tokenizer.decode(Tokens{256, start, tag}) == "ab<tool>");
  CHECK(tokenizer.decode(Tokens{256, start, tag}, true) == "ab<|im_start|><tool>");
}

TEST_CASE_METHOD(ByteLevel, "any bytes come back") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {all, all + all, std::string("caf\xC3\xA9 \xFF\xED\xA0\x80 ab"), std::string(3, '\0')}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("llama-bpe keeps a word that is a token, whatever the merges say") {
  auto data = toy::byte_level({"b c"});
  const auto whole = toy::add(data, "abc");
  const auto control = toy::add(data, "abcd", fd::TokenKind::kControl);
  CHECK(fd::Tokenizer(fd::Vocabulary(data)).encode("abc") == Tokens{'a', 256});
  data.pre = "llama-bpe";
  const fd::Tokenizer tokenizer{fd::Vocabulary(data)};
  CHECK(tokenizer.encode("abc") == Tokens{whole});
  CHECK(tokenizer.encode("abcd") == Tokens{'a', 256, 'd'});
  CHECK(tokenizer.encode("abcd", {.parse_special = true}) == Tokens{control});
}

TEST_CASE_METHOD(SentencePiece, "the space before a text comes and goes") {
  CHECK(tokenizer.encode("hi hi") == Tokens{spaced, spaced});
  CHECK(tokenizer.decode(Tokens{spaced, spaced}) == "hi hi");
  CHECK(tokenizer.decode(tokenizer.encode(" hi")) == " hi");
  CHECK(tokenizer.decode(tokenizer.encode("\xFF\xC3 ?")) == "\xFF\xC3 ?");
  data.add_space_prefix = false;
  const fd::Tokenizer plain{fd::Vocabulary(data)};
  CHECK(plain.encode("hi hi") == Tokens{hi, spaced});
  CHECK(plain.decode(Tokens{spaced}) == " hi");
}

TEST_CASE_METHOD(SentencePiece, "BOS is added where asked for and where the model wants it") {
  CHECK(tokenizer.encode("hi", {.add_bos = true}) == Tokens{1, spaced});
  CHECK(tokenizer.encode("", {.add_bos = true}) == Tokens{1});
  CHECK(tokenizer.decode(Tokens{1, spaced, 2}) == "hi");
  CHECK(tokenizer.decode(Tokens{1, spaced, 2}, true) == "<s>hi</s>");
  const auto named = toy::add(data, " <x>", fd::TokenKind::kControl);  // its name has the space
  CHECK(fd::Tokenizer(fd::Vocabulary(data)).decode(Tokens{named, spaced}, true) == " <x>hi");
  data.add_bos = false;
  CHECK(fd::Tokenizer(fd::Vocabulary(data)).encode("hi", {.add_bos = true}) == Tokens{spaced});
}

TEST_CASE_METHOD(SentencePiece, "text after a special token begins like a text") {
  CHECK(tokenizer.encode("hi<s>hi", {.parse_special = true}) == Tokens{spaced, 1, spaced});
  CHECK(tokenizer.is_end(2));
}

TEST_CASE("an unknown pre-tokenizer is refused") {
  auto data = toy::byte_level({});
  data.pre = "unheard-of";
  CHECK_THROWS_AS(fd::Tokenizer(fd::Vocabulary(data)), fd::Error);
}

TEST_CASE_METHOD(ByteLevel, "ids outside are refused") {
  CHECK_THROWS_AS(tokenizer.decode(Tokens{-1}), fd::Error);
  CHECK_THROWS_AS(tokenizer.piece(1 << 20), fd::Error);
}

TEST_CASE_METHOD(ByteLevel, "a moved tokenizer serves many threads") {
  const fd::Tokenizer moved = std::move(tokenizer);
  std::string text;
  for (int n = 0; n < 300; ++n) text += "ab <tool> 12 abab\n";
  const Tokens expected = moved.encode(text);
  std::vector<Tokens> results(4);
  std::vector<std::thread> threads;
  for (auto& tokens : results) threads.emplace_back([&] { tokens = moved.encode(text); });
  for (auto& thread : threads) thread.join();
  for (const auto& tokens : results) CHECK(tokens == expected);
}
