#include <foredraft/constraint/token_list.hpp>

#include <memory>
#include <vector>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/throws.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

TEST_CASE("allowed and forbidden tokens say the same everywhere") {
  const fd::AllowedTokens allowed(5, Tokens{1, 4});
  const fd::ForbiddenTokens forbidden(5, Tokens{0, 2, 3});
  CHECK(*allowed.mask(allowed.start()) == *forbidden.mask(forbidden.start()));
  CHECK(allowed.next(allowed.start(), 4).has_value());
  CHECK_FALSE(allowed.next(allowed.start(), 2).has_value());
  CHECK(forbidden.may_end({}));
  CHECK_FALSE(forbidden.finished({}));
  CHECK(code_of([] { fd::AllowedTokens(5, Tokens{5}); }) == fd::ErrorCode::kTokenOutOfRange);
  CHECK(code_of([] { fd::ForbiddenTokens(5, Tokens{-1}); }) == fd::ErrorCode::kTokenOutOfRange);
}

TEST_CASE("a text has no other tokens than those allowed, and no forbidden one") {
  toy::Target target(16, 1);
  fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  fd::Options options{.max_tokens = 40};
  options.constraint = fd::AllowedTokens(16, Tokens{3, 5, 7});
  for (const fd::TokenId token : decoder.generate(Tokens{1, 2}, options).tokens) {
    CHECK((token == 3 || token == 5 || token == 7));
  }
  options.constraint = fd::ForbiddenTokens(16, Tokens{3, 5, 7});
  for (const fd::TokenId token : decoder.generate(Tokens{1, 2}, options).tokens) {
    CHECK(token != 3);
    CHECK(token != 5);
    CHECK(token != 7);
  }
}
