#include <foredraft/acceptance/any_acceptance.hpp>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::SamplingOptions kSampled{.temperature = 1.0f};

/// Every seed gives the verdict of the rule that is held.
template <typename A>
void check_same(const A& rule, const fd::SamplingOptions& sampling) {
  const fd::AnyAcceptance any = rule;
  CHECK(any.uses_law_now() == A::uses_law);
  CHECK(any.needs(sampling) == rule.needs(sampling));
  fd::DraftTree draft;
  draft.reset(0);
  draft.drawn_from(0) = {{0, 1}, {0.5, 0.5}};
  draft.extend(1);
  draft.extend(2);
  const Rows rows(draft, {{0, 1, 0}, {0, 0, 1}, {0, 0, 0}}, sampling);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    fd::Philox one(seed), other(seed);
    const fd::Verdict a = rule.verify(draft, rows.sampler, one);
    const fd::Verdict b = any.verify(draft, rows.sampler, other);
    CHECK(a.path == b.path);
    CHECK(a.path_size == b.path_size);
    CHECK(a.last == b.last);
  }
}

}  // namespace

TEST_CASE("a rule behind AnyAcceptance decides as it does alone") {
  check_same(fd::Greedy{}, {});
  check_same(fd::SampleAndMatch{}, {});
  check_same(fd::SampleAndMatch{}, kSampled);
  check_same(fd::RejectionSampling{}, kSampled);
}

TEST_CASE("what a rule refuses is refused through AnyAcceptance") {
  CHECK_THROWS_AS(fd::AnyAcceptance{fd::Greedy{}}.needs(kSampled), fd::Error);
}
