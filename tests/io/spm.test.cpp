#include <foredraft/io/spm.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

constexpr fd::TokenId kFirst = 3 + 256;  // of the tokens that a test adds
constexpr fd::TokenId byte(unsigned char value) { return 3 + value; }

/// Tokens with falling scores: the first is the first to be formed.
fd::Vocabulary with(const std::vector<std::string>& texts) {
  auto data = toy::sentence_piece();
  float score = 0;
  for (const auto& text : texts) toy::add(data, text, fd::TokenKind::kNormal, score -= 1);
  return fd::Vocabulary(data);
}

Tokens encode(const fd::Vocabulary& vocabulary, std::string_view text, bool space_prefix = false) {
  Tokens out;
  fd::SentencePieceEncoder::encode(vocabulary, text, space_prefix, out);
  return out;
}

}  // namespace

TEST_CASE("the highest score merges first, of equal ones the leftmost") {
  const auto vocabulary = with({"bc", "ab", "a", "b", "c", "abc"});
  CHECK(encode(vocabulary, "abc") == Tokens{kFirst + 5});  // bc, then a+bc
  CHECK(encode(vocabulary, "abab") == Tokens{kFirst + 1, kFirst + 1});
  const auto runs = with({"aa", "a"});
  CHECK(encode(runs, "aaa") == Tokens{kFirst, kFirst + 1});
}

TEST_CASE("a pair whose first character has merged otherwise is not formed later") {
  // xa and bc come first; then a+b finds its a gone, and behind it a piece as long as itself.
  const auto vocabulary = with({"xa", "bc", "ab", "a", "b", "c", "x"});
  CHECK(encode(vocabulary, "xabc") == Tokens{kFirst, kFirst + 1});
}

TEST_CASE("spaces are marked, and one may be put before the text") {
  const auto vocabulary =
      with({"\xE2\x96\x81"
            "a",
            "\xE2\x96\x81", "a"});
  CHECK(encode(vocabulary, "a a") == Tokens{kFirst + 2, kFirst});
  CHECK(encode(vocabulary, "a a", true) == Tokens{kFirst, kFirst});
  CHECK(encode(vocabulary, "  ") == Tokens{kFirst + 1, kFirst + 1});
  CHECK(encode(vocabulary, "", true) == Tokens{});
}

TEST_CASE("a character without a token becomes its bytes") {
  const auto vocabulary = with({"a"});
  CHECK(encode(vocabulary, "a\xC3\xA9") == Tokens{kFirst, byte(0xC3), byte(0xA9)});
  CHECK(encode(vocabulary,
               "\xFF"
               "a\xE2\x82") == Tokens{byte(0xFF), kFirst, byte(0xE2), byte(0x82)});
  CHECK(encode(vocabulary, std::string(1, '\0')) == Tokens{byte(0)});
}

TEST_CASE("a byte without a token becomes the unknown token") {
  auto data = toy::sentence_piece();
  data.kinds[fd::idx(byte('x'))] = fd::TokenKind::kUnused;
  CHECK(encode(fd::Vocabulary(data), "xy") == Tokens{0, byte('y')});
}

TEST_CASE("text forms no control tokens, and no bytes by their spelling") {
  auto data = toy::sentence_piece();
  for (const char* const text : {"<", "s", ">", "<s", "0", "x", "4", "1", "<0", "x4", "1>", "x41>"})
    toy::add(data, text);
  const fd::Vocabulary vocabulary(data);
  const auto id = [&](std::string_view text) { return *vocabulary.find(text); };
  CHECK(encode(vocabulary, "<s>") == Tokens{id("<s"), id(">")});
  CHECK(encode(vocabulary, "<0x41>") == Tokens{id("<0"), id("x41>")});
}

TEST_CASE("a text of a million bytes is encoded") {
  const auto vocabulary = with({"aa", "aaaa", "a"});
  CHECK(encode(vocabulary, std::string(1 << 20, 'a')) == Tokens(1 << 18, kFirst + 1));
}
