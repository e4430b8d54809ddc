#include <foredraft/core/constraint.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/path_constraint.hpp"

namespace fd = foredraft;

TEST_CASE("any constraint answers as the one that it holds") {
  const PathConstraint held{
      4, [](const auto& text, fd::TokenId token) { return text.size() < 2 && token > 1; },
      [](const auto& text) { return text.size() == 2; },
      [](const auto&) { return std::vector<fd::TokenId>{2, 3}; }};
  const fd::AnyConstraint any(held);
  CHECK(any);
  CHECK(any.vocab_size() == 4);
  const auto start = any.start();
  CHECK(any.next(start, 1) == nullptr);
  CHECK(any.mask(start)->size() == 2);
  CHECK(any.forced(start, 1) == std::vector<fd::TokenId>{2});
  CHECK_FALSE(any.may_end(start));
  const auto end = any.next(any.next(start, 2), 3);
  REQUIRE(end != nullptr);
  CHECK(any.may_end(end));
  CHECK(any.finished(end));
  CHECK_FALSE(any.finished(start));  // a state is not moved by asking for the next one
}

TEST_CASE("copies are the same constraint, another one is not") {
  const fd::AnyConstraint a(arbitrary_constraint(3));
  const fd::AnyConstraint copy = a;
  CHECK(a == copy);
  CHECK(a != fd::AnyConstraint(arbitrary_constraint(3)));
  CHECK_FALSE(fd::AnyConstraint());
}
