#include <foredraft/testing/enumerating_rng.hpp>

#include <map>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

namespace {

const fd::RngKey kFirst{fd::Purpose::kAccept, 3, 1};
const fd::RngKey kSecond{fd::Purpose::kResidual, 3, 1};
const std::vector<fd::TokenId> kIds{4, 7, 9};

}  // namespace

TEST_CASE("every path is followed once, with its probability") {
  ft::EnumeratingRng rng;
  std::map<std::pair<bool, std::size_t>, double> seen;
  rng.for_each_path([&] {
    const bool yes = rng.bernoulli(kFirst, 0.25);
    const std::size_t i = rng.categorical(kSecond, kIds, std::vector<double>{1.0, 0.0, 3.0});
    seen[{yes, i}] += rng.weight();
  });
  CHECK(seen.size() == 4);  // what has probability 0 is not followed
  CHECK(seen[{true, 0}] == 0.0625);
  CHECK(seen[{false, 2}] == 0.5625);
}

TEST_CASE("certain answers are no branches") {
  ft::EnumeratingRng rng;
  int paths = 0;
  rng.for_each_path([&] {
    CHECK(rng.bernoulli(kFirst, 1.5));
    CHECK(!rng.bernoulli({fd::Purpose::kAccept, 3, 2}, 0.0));
    ++paths;
  });
  CHECK(paths == 1);
}

TEST_CASE("a key for two decisions is refused, on one path and across rounds") {
  ft::EnumeratingRng rng;
  CHECK_THROWS_AS(rng.for_each_path([&] {
    rng.bernoulli(kFirst, 0.5);
    rng.bernoulli(kFirst, 0.5);
  }),
                  ft::KeyReuse);
  CHECK_THROWS_AS(rng.for_each_path({kFirst}, [&] { rng.bernoulli(kFirst, 0.5); }), ft::KeyReuse);
}

TEST_CASE("the target's sample of a position may be asked for again") {
  ft::EnumeratingRng rng;
  const fd::RngKey key{fd::Purpose::kTargetSample, 3, 0};
  const std::vector<double> weights{1.0, 1.0, 2.0};
  rng.for_each_path(
      [&] { CHECK(rng.categorical(key, kIds, weights) == rng.categorical(key, kIds, weights)); });
  CHECK_THROWS_AS(rng.for_each_path([&] {
    rng.categorical(key, kIds, weights);
    rng.categorical(key, kIds, std::vector<double>{1.0, 1.0, 1.0});
  }),
                  ft::KeyReuse);
}

TEST_CASE("shared keys answer as one uniform number would") {
  ft::EnumeratingRng rng(ft::EnumeratingRng::Reuse::kShare);
  double both = 0;
  rng.for_each_path([&] {
    const bool a = rng.bernoulli(kFirst, 0.5);
    const bool b = rng.bernoulli(kFirst, 0.25);
    CHECK((a || !b));  // below .25 is below .5
    if (a && b) both += rng.weight();
  });
  CHECK(both == 0.25);
}

TEST_CASE("a program that is not deterministic is noticed") {
  ft::EnumeratingRng rng;
  double p = 0.1;
  CHECK_THROWS_AS(rng.for_each_path([&] { rng.bernoulli(kFirst, p += 0.1); }), std::logic_error);
}
