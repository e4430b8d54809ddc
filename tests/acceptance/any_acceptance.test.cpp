#include <foredraft/acceptance/any_acceptance.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::SamplingOptions kSampled{.temperature = 1.0f};

/// Every seed gives the verdict of the rule that is held.
template <typename A>
void check_same(const A& rule, const fd::SamplingOptions& sampling) {
  const fd::AnyAcceptance any = rule;
  CHECK(any.uses_law() == A::uses_law());
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

namespace {

/// Accepts nothing. It cannot be copied.
struct Own {
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr bool lossless = false;
  Own() = default;
  Own(Own&&) = default;
  bool uses_law() const noexcept { return true; }
  fd::RowNeed needs(const fd::SamplingOptions&) const { return fd::RowNeed::kSums; }
  fd::Verdict verify(const fd::DraftTree&, const fd::RowSampler&, fd::Rng&) const {
    fd::Verdict verdict;
    verdict.start();
    verdict.last = 2;
    return verdict;
  }
};

}  // namespace

TEST_CASE("a rule of one's own can be held, and copies share it") {
  const fd::AnyAcceptance own{Own{}};
  const fd::AnyAcceptance copy = own;
  CHECK(copy.uses_law());
  CHECK(copy.needs({}) == fd::RowNeed::kSums);
  fd::DraftTree draft;
  draft.reset(0);
  const Rows rows(draft, {{0, 1, 0}}, {});
  fd::Philox rng;
  CHECK(copy.verify(draft, rows.sampler, rng).last == 2);
}

TEST_CASE("a tree is verified where the rule can, and refused where it cannot") {
  fd::DraftTree draft;
  draft.reset(0);
  draft.add(0, 1);
  draft.add(0, 2);
  const Rows rows(draft, {{0, 0, 1}, {0, 0, 1}, {1, 0, 0}}, {});
  fd::Philox rng;
  CHECK(fd::AnyTreeAcceptance(fd::Greedy{}).verify(draft, rows.sampler, rng).end() == 2);
  try {
    fd::AnyTreeAcceptance(fd::AnyAcceptance(fd::BlockVerification{}))
        .verify(draft, rows.sampler, rng);
    FAIL("verified");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidOption);
    CHECK(error.found() == "a tree for an acceptance rule that verifies chains only");
  }
}
