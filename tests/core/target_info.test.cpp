#include <foredraft/core/target_info.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

fd::VocabularyInfo vocabulary(std::vector<std::string> pieces, int used) {
  const int size = static_cast<int>(pieces.size());
  return {size, used,
          [pieces = std::move(pieces)](fd::TokenId id) { return pieces.at(fd::idx(id)); }};
}

bool fits(const fd::TargetInfo& target, const fd::TargetInfo& draft) {
  try {
    fd::require_same_vocabulary(target, draft);
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kVocabularyMismatch);
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("vocabularies are the same where all pieces in use are") {
  const auto two = vocabulary({"a", "b"}, 2);
  CHECK_FALSE(fd::first_difference(two, vocabulary({"a", "b", "pad"}, 2)));
  const auto difference = fd::first_difference(two, vocabulary({"a", "c"}, 2));
  REQUIRE(difference);
  CHECK(difference->id == 1);
  CHECK(difference->describe() == "token 1: \"b\" in the target, \"c\" in the draft model");
  CHECK(fd::first_difference(vocabulary({"a", "b"}, 1), two)->id == 1);  // padding there
  CHECK(fd::first_difference(two, vocabulary({"a", "b", "c"}, 3))->id == 2);
}

TEST_CASE("pieces decide where they are known, else the sizes do") {
  const fd::TargetInfo known{.n_vocab = 3, .vocabulary = vocabulary({"a", "b"}, 2)};
  const fd::TargetInfo other{.n_vocab = 3, .vocabulary = vocabulary({"a", "c"}, 2)};
  fd::TargetInfo padded = known;
  padded.n_vocab = 64;
  const fd::TargetInfo nameless{.n_vocab = 3};
  CHECK(fits(known, padded));
  CHECK_FALSE(fits(known, other));
  CHECK(fits(known, nameless));
  CHECK_FALSE(fits(padded, nameless));
  CHECK(fits(nameless, nameless));
}
