#include <foredraft/core/dimension.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

template <typename A, typename B>
concept Multiplies = requires(A a, B b) { a* b; };

}  // namespace

TEST_CASE("a dimension is no larger than kMost, and not negative") {
  CHECK(fd::Dim() == 0);
  CHECK(fd::Dim(fd::Dim::kMost) == 1 << 26);
  CHECK_THROWS_AS(fd::Dim(fd::Dim::kMost + 1), fd::Error);
  CHECK_THROWS_AS(fd::Dim(-1), fd::Error);
}

TEST_CASE("dimensions are not multiplied as numbers") {
  STATIC_REQUIRE(!Multiplies<fd::Dim, fd::Dim>);
  STATIC_REQUIRE(!Multiplies<fd::Dim, int>);
  STATIC_REQUIRE(!Multiplies<std::size_t, fd::Dim>);
  STATIC_REQUIRE(Multiplies<fd::Dim, double>);  // nothing wraps there
}

TEST_CASE("a product is exact, or it is no dimension") {
  constexpr fd::Dim kLargest = fd::Dim::kMost;
  STATIC_REQUIRE(fd::area(kLargest, kLargest) == std::size_t{1} << 52);
  STATIC_REQUIRE(fd::area(65535, 65538) == 4295032830u);  // 65534 in 32 bits
  CHECK(fd::checked_product(12, 128) == fd::Dim(1536));
  CHECK(fd::checked_product(1 << 13, 1 << 13) == kLargest);
  CHECK(!fd::checked_product((1 << 13) + 1, 1 << 13));
  CHECK(!fd::checked_product(65535, 65538));
  CHECK(fd::checked_product(0, kLargest) == fd::Dim(0));
}
