#include <foredraft/core/any_ref.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a reference of any type is had back as the type that it was, and as no other") {
  int n = 3;
  const fd::AnyRef ref(n);
  REQUIRE(ref.get<int>() == &n);
  *ref.get<int>() = 4;
  CHECK(n == 4);
  CHECK(ref.get<unsigned>() == nullptr);
  CHECK(ref.get<const int>() == &n);  // a type is known without const
  const fd::AnyRef copy = ref;
  CHECK(copy.get<int>() == &n);
}

TEST_CASE("a reference to nothing is of no type") { CHECK(fd::AnyRef().get<int>() == nullptr); }

TEST_CASE("an object of a derived type is not had as its base") {
  struct Base {};
  struct Derived : Base {};
  Derived derived;
  CHECK(fd::AnyRef(derived).get<Base>() == nullptr);
  CHECK(fd::AnyRef(static_cast<Base&>(derived)).get<Base>() == &derived);
}
