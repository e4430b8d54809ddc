#include <foredraft/drafter/no_draft.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

TEST_CASE("without drafts each pass makes one token, the target's own choice") {
  toy::Target target(16, 0);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  std::vector<fd::TokenId> text{3, 1, 4};
  const fd::Result result = decoder.generate(text, {.max_tokens = 40});
  for (int i = 0; i < 40; ++i) text.push_back(fd::Scores::argmax_of(target.logits_after(text)));
  CHECK(std::ranges::equal(decoder.tokens(), text));
  CHECK(target.passes == 1 + 40);  // the prompt, then one for each token
  CHECK(result.stats.plain == 40);
  CHECK(result.stats.drafted == 0);
}
