#include <foredraft/acceptance/residual.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

const fd::Law kP{{1, 3, 4}, {0.5, 0.3, 0.2}};
const fd::Law kQ{{0, 1, 4}, {0.2, 0.2, 0.6}};

}  // namespace

TEST_CASE("the residual is what p has above q, renormalised") {
  CHECK(fd::residual_mass(1.0, kP, kQ) == Approx(0.6));
  const fd::Law rest = fd::residual(1.0, kP, kQ);
  CHECK(rest.ids == std::vector<fd::TokenId>{1, 3});
  CHECK(rest.p[0] == Approx(0.5));
  CHECK(rest.p[1] == Approx(0.5));
}

TEST_CASE("a scaled residual takes part of p") {
  CHECK(fd::residual_mass(0.5, kP, kQ) == Approx(0.05 + 0.15));
  const fd::Law rest = fd::residual(0.5, kP, kQ);
  CHECK(rest.ids == std::vector<fd::TokenId>{1, 3});
  CHECK(rest.p[0] == Approx(0.25));
  CHECK(rest.p[1] == Approx(0.75));
}

TEST_CASE("a residual without mass is p") {
  CHECK(fd::residual_mass(1.0, kP, kP) == 0.0);
  CHECK(fd::residual(1.0, kP, kP).p == kP.p);
  CHECK(fd::residual(0.0, kP, kQ).ids == kP.ids);
}

TEST_CASE("with nothing drafted the residual is p") {
  CHECK(fd::residual_mass(1.0, kP, {}) == Approx(1.0));
  CHECK(fd::residual(1.0, kP, {}).ids == kP.ids);
}

TEST_CASE("the ratio is p over q, and a token that q excludes is refused") {
  CHECK(fd::likelihood_ratio(kP, kQ, 1) == Approx(2.5));
  CHECK(fd::likelihood_ratio(kP, kQ, 0) == 0.0);  // p excludes it
  CHECK(fd::likelihood_ratio(kP, fd::point_mass(3), 3) == Approx(0.3));
  CHECK_THROWS_AS(fd::likelihood_ratio(kP, kQ, 3), fd::Error);
  CHECK_THROWS_AS(fd::likelihood_ratio(kP, fd::Law{{1}, {std::nan("")}}, 1), fd::Error);
  // No overflow: a q at the edge of the range makes the ratio large, not undefined.
  CHECK(fd::likelihood_ratio(kP, fd::Law{{1}, {1e-310}}, 1) > 1e300);
}

TEST_CASE("without a token the others share its mass") {
  const fd::Law rest = fd::without(kQ, 4);
  CHECK(rest.ids == std::vector<fd::TokenId>{0, 1});
  CHECK(rest.p == std::vector<double>{0.5, 0.5});
  CHECK(fd::without(fd::point_mass(7), 7).size() == 0);
  CHECK(fd::without(kQ, 2).ids == kQ.ids);
}
