#include <foredraft/io/vocabulary.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

std::optional<fd::ErrorCode> refusal(const fd::VocabularyData& data) {
  try {
    const fd::Vocabulary vocabulary(data);
    return std::nullopt;
  } catch (const fd::Error& error) {
    return error.code();
  }
}

}  // namespace

TEST_CASE("pieces of a byte-level vocabulary are the bytes") {
  auto data = toy::byte_level({"\xC4\xA0 h"});
  const auto end = toy::add(data, "<|im_end|>", fd::TokenKind::kControl);
  const auto tag = toy::add(data, "<b> \xC4\xA0", fd::TokenKind::kUserDefined);
  data.eos = end;
  const fd::Vocabulary vocabulary(data);
  CHECK(vocabulary.size() == 259);
  CHECK(vocabulary.piece('A') == "A");
  CHECK(vocabulary.piece(0) == std::string(1, '\0'));
  CHECK(vocabulary.piece(0xFF) == "\xFF");
  CHECK(vocabulary.piece(256) == " h");
  CHECK(vocabulary.text(256) == "\xC4\xA0h");
  CHECK(vocabulary.piece(end).empty());
  CHECK(vocabulary.piece(end, true) == "<|im_end|>");
  CHECK(vocabulary.piece(tag) == "<b> \xC4\xA0");
  REQUIRE(vocabulary.merges().size() == 1);
  CHECK(vocabulary.merges()[0] == fd::Merge{' ', 'h', 256});
}

TEST_CASE("pieces of a SentencePiece vocabulary are text with spaces") {
  auto data = toy::sentence_piece();
  const auto word = toy::add(data,
                             "\xE2\x96\x81"
                             "a\xE2\x96\x81\xE2\x96\x81");
  const fd::Vocabulary vocabulary(data);
  CHECK(vocabulary.piece(word) == " a  ");
  CHECK(vocabulary.piece(3 + 0xE2) == "\xE2");
  CHECK(vocabulary.byte_token(0xE2) == 3 + 0xE2);
  CHECK(vocabulary.piece(0).empty());
  CHECK(vocabulary.piece(1, true) == "<s>");
  CHECK(vocabulary.bos() == 1);
  CHECK(vocabulary.adds_bos());
  CHECK(vocabulary.adds_space_prefix());
}

TEST_CASE("a copy outlives the original") {
  std::optional<fd::Vocabulary> original(toy::byte_level({"a b"}));
  const fd::Vocabulary copy = *original;
  const fd::Vocabulary moved = std::move(*original);
  original.reset();
  CHECK(copy.find("ab") == 256);
  CHECK(moved.piece(256) == "ab");
}

TEST_CASE("declared and well-known control tokens end a text") {
  auto data = toy::byte_level({});
  const auto eos = toy::add(data, "STOP");
  const auto eot = toy::add(data, "TURN");
  const auto known = toy::add(data, "<|endoftext|>", fd::TokenKind::kControl);
  const auto shown = toy::add(data, "<|eot_id|>", fd::TokenKind::kUserDefined);
  const auto other = toy::add(data, "<|im_start|>", fd::TokenKind::kControl);
  data.eos = eos;
  data.eot = eot;
  data.eom = known;  // declared and known by its name, but listed once
  const fd::Vocabulary vocabulary(data);
  CHECK(vocabulary.is_end(eos));
  CHECK(vocabulary.is_end(eot));
  CHECK(vocabulary.is_end(known));
  CHECK(!vocabulary.is_end(shown));
  CHECK(!vocabulary.is_end(other));
  CHECK(!vocabulary.is_end(-1));
  CHECK(!vocabulary.is_end(1 << 30));
  CHECK(vocabulary.ends().size() == 3);
}

TEST_CASE("texts may repeat; a token that text can produce is found first") {
  auto data = toy::byte_level({});
  const auto first = toy::add(data, "twice");
  const auto second = toy::add(data, "twice");
  toy::add(data, "twice", fd::TokenKind::kControl);
  const fd::Vocabulary vocabulary(data);
  CHECK(vocabulary.find("twice") == second);
  CHECK(vocabulary.piece(first) == "twice");
  CHECK(!vocabulary.find("thrice"));
}

TEST_CASE("ids outside are refused, declared ones too") {
  const fd::Vocabulary vocabulary(toy::byte_level({}));
  for (const fd::TokenId id : {-1, 256, std::numeric_limits<fd::TokenId>::min()}) {
    CHECK_THROWS_AS(vocabulary.piece(id), fd::Error);
    CHECK_THROWS_AS(vocabulary.text(id), fd::Error);
  }
  for (auto field :
       {&fd::VocabularyData::bos, &fd::VocabularyData::eos, &fd::VocabularyData::eot,
        &fd::VocabularyData::eom, &fd::VocabularyData::unknown, &fd::VocabularyData::padding}) {
    auto data = toy::byte_level({});
    data.*field = 255;
    CHECK(!refusal(data));
    data.*field = 256;
    CHECK(refusal(data) == fd::ErrorCode::kTokenOutOfRange);
    data.*field = -1;
    CHECK(refusal(data) == fd::ErrorCode::kTokenOutOfRange);
  }
}

TEST_CASE("lengths that disagree are refused") {
  CHECK(refusal(fd::VocabularyData{}) == fd::ErrorCode::kCorruptFile);
  auto data = toy::sentence_piece();
  data.scores.pop_back();
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  data = toy::sentence_piece();
  data.scores.clear();
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  data = toy::sentence_piece();
  data.scores[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  data = toy::byte_level({});
  data.kinds.pop_back();
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  data = toy::byte_level({});
  data.scores = {1.0F};
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("a vocabulary of normal tokens needs no kinds") {
  auto data = toy::byte_level({});
  data.kinds.clear();
  CHECK(fd::Vocabulary(data).kind(7) == fd::TokenKind::kNormal);
}

TEST_CASE("merges are two tokens that make up a third") {
  for (const char* const bad : {"", " ", "a", "a ", " b", "ab", "a  b", "a b c", "a c"}) {
    auto data = toy::byte_level({"a b"});
    data.merges.push_back(bad);
    INFO(bad);
    CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
    toy::add(data, "");  // nothing is no part of a merge, even where a token has no text
    CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  }
}

TEST_CASE("a SentencePiece vocabulary must be able to spell anything") {
  auto data = toy::sentence_piece();
  data.unknown.reset();
  CHECK(!refusal(data));
  data.kinds[3] = fd::TokenKind::kNormal;
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
  data.unknown = 0;
  CHECK(!refusal(data));
  data.texts[4] = "<0x-1>";
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("adding BOS takes a BOS") {
  auto data = toy::sentence_piece();
  data.bos.reset();
  CHECK(refusal(data) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("a token that SentencePiece would look up all too long is refused") {
  const auto with = [](fd::VocabularyData data, std::size_t n, fd::TokenKind kind) {
    toy::add(data, std::string(n, 'x'), kind);
    return fd::Vocabulary(data).longest_text();
  };
  using enum fd::TokenKind;
  CHECK(with(toy::sentence_piece(), 1024, kNormal) == 1024);
  CHECK_THROWS_AS(with(toy::sentence_piece(), 1025, kNormal), fd::Error);
  CHECK_THROWS_AS(with(toy::sentence_piece(), 1025, kUserDefined), fd::Error);
  CHECK(with(toy::sentence_piece(), 1025, kControl) < 1024);
  CHECK(with(toy::byte_level({}), 1025, kNormal) == 1025);  // found by the ids of its parts
}
