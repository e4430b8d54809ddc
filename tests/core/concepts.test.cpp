#include <foredraft/core/concepts.hpp>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

// Archetypes and near-misses of each concept are in tests/concepts; here is what the concepts say
// about the policies that are shipped.

namespace {

template <typename A>
constexpr bool takes_chains =
    fd::VerifiesDraftsOf<A, fd::PromptLookup> && fd::VerifiesDraftsOf<A, fd::AnyDrafter<>>;
template <typename A>
constexpr bool takes_trees = fd::VerifiesDraftsOf<A, OracleDrafter> &&
                             fd::VerifiesDraftsOf<A, fd::AnyDrafter<fd::Shape::kTree>>;

}  // namespace

static_assert(takes_chains<fd::Greedy> && takes_trees<fd::Greedy>);
static_assert(takes_chains<fd::SampleAndMatch> && takes_trees<fd::SampleAndMatch>);
static_assert(takes_chains<fd::RejectionSampling> && takes_trees<fd::RejectionSampling>);
static_assert(takes_chains<fd::BlockVerification> && !takes_trees<fd::BlockVerification>);
static_assert(takes_chains<fd::AnyAcceptance> && !takes_trees<fd::AnyAcceptance>);
static_assert(takes_chains<fd::AnyTreeAcceptance> && takes_trees<fd::AnyTreeAcceptance>);
static_assert(!fd::VerifiesDraftsOf<fd::Greedy, fd::Greedy>);
static_assert(!fd::VerifiesDraftsOf<fd::NoDraft, fd::NoDraft>);
static_assert(fd::Greedy::lossless && fd::SampleAndMatch::lossless &&
              fd::RejectionSampling::lossless && fd::BlockVerification::lossless);

TEST_CASE("a drafter is told whether its q is used") {
  toy::Target target(8);
  struct Asks : fd::NoDraft {
    int* laws = nullptr;
    void propose(const fd::Context& context, fd::Limit, fd::DraftTree&) const {
      *laws += context.uses_law;
    }
  };
  const auto rounds_with_law = [&](auto rule) {
    int laws = 0;
    Asks asks;
    asks.laws = &laws;
    fd::Decoder decoder{target, toy::TokenCache{}, asks, std::move(rule)};
    decoder.generate(std::vector<fd::TokenId>{1}, {.max_tokens = 4});
    return laws;
  };
  CHECK(rounds_with_law(fd::SampleAndMatch{}) == 0);
  CHECK(rounds_with_law(fd::RejectionSampling{}) == 3);  // the first round is not asked
  CHECK(rounds_with_law(fd::AnyAcceptance(fd::SampleAndMatch{})) == 0);
  CHECK(rounds_with_law(fd::AnyAcceptance(fd::RejectionSampling{})) == 3);
}
