#include <foredraft/foredraft.hpp>

#include "concepts/archetypes.hpp"
#include "concepts/near_misses.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// `n` tokens counted upwards from `first`.
std::vector<fd::TokenId> count_from(fd::TokenId first, int n) {
  std::vector<fd::TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((first + i) % archetype::Target::kVocab);
  return tokens;
}

}  // namespace

TEST_CASE("a decoder asks for no more than the concepts do") {
  archetype::Target target;
  fd::Decoder decoder{target, archetype::Cache{}, archetype::Drafter{}, archetype::Acceptance{}};
  const fd::Result result = decoder.generate(count_from(0, 12), {.max_tokens = 20, .n_draft = 8});
  CHECK(result.tokens == count_from(12, 20));
  CHECK(result.stats.accepted > 0);
  CHECK(result.stats.corrected > 0);
  CHECK(result.text.empty());
  CHECK(decoder.resume({.max_tokens = 5}).tokens == count_from(32, 5));
  // A cache that cannot go back begins anew, and the same prompt with more behind it does not.
  CHECK(decoder.generate(count_from(3, 9), {.max_tokens = 4}).stats.reused_tokens == 0);
  CHECK(std::ranges::equal(decoder.tokens(), count_from(3, 13)));
  const fd::Result longer = decoder.generate(count_from(3, 15), {.max_tokens = 4});
  CHECK(longer.tokens == count_from(18, 4));
  CHECK(longer.stats.reused_tokens == 12);
}

TEST_CASE("text and moved-in policies come through the least that a text target offers") {
  archetype::TextTarget target;
  fd::Decoder decoder{target, archetype::Cache{}, fd::AnyDrafter<>(archetype::Drafter{}),
                      fd::AnyAcceptance(archetype::Acceptance{})};
  CHECK(decoder.generate(count_from(0, 2), {.max_tokens = 3}).text == "xxx");
}
