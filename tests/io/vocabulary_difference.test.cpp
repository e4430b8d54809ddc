#include <foredraft/io/vocabulary_difference.hpp>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/toy_vocabulary.hpp"

namespace fd = foredraft;

namespace {

fd::Vocabulary with(std::initializer_list<std::pair<const char*, fd::TokenKind>> tokens) {
  auto data = toy::byte_level({});
  for (const auto& [text, kind] : tokens) toy::add(data, text, kind);
  return fd::Vocabulary(data);
}

constexpr auto kNormal = fd::TokenKind::kNormal;
constexpr auto kControl = fd::TokenKind::kControl;
constexpr auto kUnused = fd::TokenKind::kUnused;

}  // namespace

TEST_CASE("equal vocabularies have no difference") {
  const auto one = with({{"ab", kNormal}, {"<e>", kControl}});
  CHECK(!fd::first_difference(one, one));
  CHECK_NOTHROW(fd::require_same_vocabulary(one, one));
}

TEST_CASE("equal sizes with other pieces differ") {
  const auto difference = fd::first_difference(with({{"ab", kNormal}, {"cd", kNormal}}),
                                               with({{"cd", kNormal}, {"ab", kNormal}}));
  REQUIRE(difference);
  CHECK(difference->id == 256);
  CHECK(difference->target == "ab");
  CHECK(difference->draft == "cd");
  CHECK(difference->describe() == "token 256: \"ab\" in the target, \"cd\" in the draft model");
}

TEST_CASE("control tokens are compared by name") {
  CHECK(fd::first_difference(with({{"<a>", kControl}}), with({{"<b>", kControl}})));
}

TEST_CASE("unused tokens at the end may differ in name and number") {
  const auto bare = with({{"ab", kNormal}});
  const auto padded = with({{"ab", kNormal}, {"[PAD257]", kUnused}, {"[PAD258]", kUnused}});
  const auto other = with({{"ab", kNormal}, {"<unused>", kUnused}});
  CHECK(!fd::first_difference(bare, padded));
  CHECK(!fd::first_difference(padded, bare));
  CHECK(!fd::first_difference(padded, other));
}

TEST_CASE("a token in use on one side only is a difference") {
  const auto bare = with({{"ab", kNormal}});
  const auto longer = with({{"ab", kNormal}, {"cd", kNormal}});
  const auto difference = fd::first_difference(bare, longer);
  REQUIRE(difference);
  CHECK(difference->id == 257);
  CHECK(!difference->target);
  CHECK(difference->draft == "cd");
  CHECK(difference->describe() == "token 257: nothing in the target, \"cd\" in the draft model");
  // The other side has the id, but as padding.
  const auto padded = with({{"ab", kNormal}, {"cd", kUnused}});
  CHECK(fd::first_difference(padded, longer)->id == 257);
  CHECK(fd::first_difference(longer, padded)->id == 257);
  // Unused tokens before the last one in use are no padding.
  CHECK(fd::first_difference(with({{"x", kUnused}, {"ab", kNormal}}),
                             with({{"y", kUnused}, {"ab", kNormal}})));
}

TEST_CASE("the error names both pieces") {
  try {
    fd::require_same_vocabulary(with({{"ab", kNormal}}), with({{"\n", kNormal}}));
    FAIL("accepted");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kVocabularyMismatch);
    CHECK(error.found().find("token 256: \"ab\" in the target, \"\\x0A\" in the draft") == 0);
  }
}
