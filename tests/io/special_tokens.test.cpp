#include <foredraft/io/special_tokens.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

struct Fixture {
  fd::VocabularyData data = toy::byte_level({});
  fd::TokenId start = toy::add(data, "<|a|>", fd::TokenKind::kControl);
  fd::TokenId tag = toy::add(data, "<b>", fd::TokenKind::kUserDefined);
  fd::TokenId two = toy::add(data, "\n\n", fd::TokenKind::kUserDefined);
  fd::TokenId four = toy::add(data, "\n\n\n\n", fd::TokenKind::kUserDefined);
  fd::TokenId unknown = toy::add(data, "<unk>", fd::TokenKind::kUnknown);
  fd::TokenId unused = toy::add(data, "[PAD]", fd::TokenKind::kUnused);
  fd::TokenId empty = toy::add(data, "", fd::TokenKind::kControl);
  fd::TokenId again = toy::add(data, "<b>", fd::TokenKind::kUserDefined);
  fd::Vocabulary vocabulary{data};
  fd::SpecialTokens user_defined{vocabulary, false}, all{vocabulary, true};
};

}  // namespace

TEST_CASE_METHOD(Fixture, "user-defined tokens are always found, names on request") {
  CHECK(!user_defined.find(vocabulary, "x<|a|><unk>", 0));
  const auto found = all.find(vocabulary, "x<|a|><unk>", 0);
  REQUIRE(found);
  CHECK(found->begin == 1);
  CHECK(found->length == 5);
  CHECK(found->id == start);
  CHECK(all.find(vocabulary, "x<|a|><unk>", 2)->id == unknown);
  CHECK(all.find(vocabulary, "<|a<b>", 0)->begin == 3);
}

TEST_CASE_METHOD(Fixture, "the longest at the leftmost place is taken") {
  CHECK(user_defined.find(vocabulary, "\n\n\n", 0)->id == two);
  CHECK(user_defined.find(vocabulary, "\n\n\n\n\n", 0)->id == four);
  CHECK(user_defined.find(vocabulary, "\n<b>\n\n\n\n", 0)->id == again);
  CHECK(!user_defined.find(vocabulary, "\n", 0));
}

TEST_CASE_METHOD(Fixture, "unused and empty tokens are never found") {
  CHECK(!all.find(vocabulary, "[PAD]", 0));
  CHECK(!all.find(vocabulary, "", 0));
  CHECK(!all.find(vocabulary, "<b", 0));
  CHECK(!all.find(vocabulary, "<b>", 1));
  CHECK(!all.find(vocabulary, "<b>", 100));
}

TEST_CASE("a vocabulary without special tokens has none to find") {
  const fd::Vocabulary vocabulary(toy::byte_level({}));
  CHECK(!fd::SpecialTokens(vocabulary, true).find(vocabulary, "<s>", 0));
}
