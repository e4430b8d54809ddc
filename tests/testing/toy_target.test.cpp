#include <foredraft/testing/toy_target.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

TEST_CASE("logits depend on as many tokens as the order says") {
  const ft::HashTarget two(5, 2);
  CHECK(two.logits_after(std::vector<fd::TokenId>{1, 2, 3}) ==
        two.logits_after(std::vector<fd::TokenId>{4, 2, 3}));
  const ft::HashTarget all(5, 0);
  CHECK(all.logits_after(std::vector<fd::TokenId>{1, 2, 3}) !=
        all.logits_after(std::vector<fd::TokenId>{4, 2, 3}));
}
