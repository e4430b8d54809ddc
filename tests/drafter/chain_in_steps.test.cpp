// Drafters that are controlled, and whose model's passes somebody else makes: they draft as they would
// with passes of their own.

#include <algorithm>
#include <foredraft/foredraft.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/function_policies.hpp"
#include "support/simulated_rounds.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
using fd::Shape;

namespace {

using Cache = toy::TokenCache;
constexpr double kAcceptance = 0.8;

/// Drafts a token a pass. In propose() the simulated clock shows what a pass takes.
struct Stepped : fd::StatelessDrafter {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  using DraftCache = Cache;

  Stepped(double pass_seconds = 0, int good_passes = kAll, Cache* own = nullptr)
      : seconds(pass_seconds), passes_until_failure(good_passes), cache(own) {}

  static constexpr int kAll = 1 << 30;
  double seconds;
  int passes_until_failure;  // 0: it fails in begin()
  Cache* cache;
  int position = 0;
  int left = 0;

  int max_depth() const { return 16; }
  std::optional<int> backlog(int) const { return 0; }
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    begin(context, limit, draft);
    while (request()) {
      simulated::now += seconds;
      advance(draft, seconds);
    }
  }
  void begin(const fd::Context& context, fd::Limit limit, fd::DraftTree&) {
    position = static_cast<int>(context.tokens.size());
    left = std::min(limit.depth, max_depth());
    if (passes_until_failure == 0) fail();
  }
  std::optional<fd::Request<Cache>> request() const {
    if (left == 0) return std::nullopt;
    return fd::Request<Cache>{cache, 0, 1, {}, nullptr};
  }
  void advance(fd::DraftTree& draft, double) {
    const auto at = static_cast<std::uint64_t>(position + draft.drafted());
    const bool right = simulated::unit(at, 3) < kAcceptance;
    draft.set_confidence(draft.extend(right ? simulated::truth(at) : 1000), 0.8f);
    --left;
    if (draft.drafted() == passes_until_failure) fail();
  }
  [[noreturn]] static void fail() { throw std::runtime_error("a pass failed"); }
};
static_assert(fd::SteppedDrafter<Stepped>);

/// Knows the next tokens behind a draft that is right so far.
struct Continuing : TreeFunction {
  bool continues() const { return true; }
};
Continuing continuing() {
  return {{[](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    if (context.assumed.empty()) return;
    const auto end = context.tokens.size() + context.assumed.size();
    for (int i = 0; i < std::min(2, limit.depth); ++i)
      draft.extend(simulated::truth(end + static_cast<std::uint64_t>(i)));
  }}};
}

struct Drafted {
  fd::TokenId token;
  int origin;
  friend bool operator==(Drafted, Drafted) = default;
};

/// The drafts of rounds whose passes of the target take a second for a row.
template <typename D>
std::vector<std::vector<Drafted>> drafts_of(D& chain, bool in_steps, double pass_seconds,
                                            int rounds = 120) {
  std::vector<std::vector<Drafted>> drafts;
  simulated::now = 0;
  chain.use_clock(&simulated::clock);
  std::vector<fd::TokenId> tokens;
  for (std::uint64_t i = 0; i < 20; ++i) tokens.push_back(simulated::truth(i));
  for (int round = 0; round < rounds; ++round) {
    fd::DraftTree draft;
    draft.reset(tokens.back());
    const fd::Context context{tokens, {}, {}};
    const fd::Limit limit{.depth = 24, .nodes = 24};
    const double begin = simulated::now;
    double told = 0;
    if (!in_steps) chain.propose(context, limit, draft);
    if constexpr (fd::SteppedDrafter<D>) {
      if (in_steps) chain.begin(context, limit, draft);
      while (in_steps && chain.request()) {
        chain.advance(draft, pass_seconds);
        told += pass_seconds;
      }
    }
    std::vector<fd::NodeIndex> path{0};
    std::vector<fd::TokenId> fresh;
    for (fd::NodeIndex node = 0; node >= 0;) {
      fresh.push_back(simulated::truth(tokens.size() + fresh.size()));
      node = draft.child_with(node, fresh.back());
      if (node >= 0) path.push_back(node);
    }
    drafts.emplace_back();
    for (fd::NodeIndex node = 1; node < draft.size(); ++node)
      drafts.back().push_back({draft.token(node), draft.origin(node)});
    const auto anchor = static_cast<fd::Position>(tokens.size()) - 1;
    chain.commit({draft,
                  path,
                  fresh,
                  fd::Scores{},
                  anchor,
                  {told + simulated::now - begin, 1 + 0.04 * draft.drafted()}});
    tokens.insert(tokens.end(), fresh.begin(), fresh.end());
  }
  return drafts;
}

std::size_t count(const std::vector<std::vector<Drafted>>& drafts, int origin) {
  std::size_t n = 0;
  for (const auto& draft : drafts) {
    n += static_cast<std::size_t>(
        std::ranges::count_if(draft, [&](Drafted node) { return node.origin == origin; }));
  }
  return n;
}

}  // namespace

TEST_CASE("a controlled drafter drafts as deep as passes that others make cost") {
  std::vector<std::size_t> sizes;
  for (const double seconds : {0.01, 0.2, 2.0}) {
    CAPTURE(seconds);
    fd::Controlled own{Stepped{seconds}};
    fd::Controlled shared{Stepped{}};  // its own clock stands still: it knows what it is told
    const auto drafts = drafts_of(shared, true, seconds);
    CHECK(drafts == drafts_of(own, false, seconds));
    sizes.push_back(count(drafts, 0));
  }
  CHECK(sizes[0] > sizes[1] + 100);
  CHECK(sizes[1] > sizes[2] + 100);
}

TEST_CASE("a chain drafts in steps what it drafts at once") {
  const simulated::Nature found{.acceptance = 0.5, .longest = 6, .stretches = 0.3};
  const auto make = [&](double seconds) {
    return fd::Chain<Shape::kTree, Cache>{simulated::Drafter{found, 7}, Stepped{seconds},
                                          continuing()};
  };
  auto own = make(0.05), shared = make(0);
  const auto drafts = drafts_of(shared, true, 0.05);
  CHECK(drafts == drafts_of(own, false, 0.05));
  for (int origin = 0; origin < 3; ++origin) CHECK(count(drafts, origin) > 20);
}

TEST_CASE("a drafter of several that fails in a step leaves the round to the others") {
  const simulated::Nature found{.acceptance = 0.5, .longest = 6};
  for (const int passes : {0, 1, 2}) {
    CAPTURE(passes);
    fd::Chain<Shape::kChain, Cache> chain{simulated::Drafter{found, 7}, Stepped{0, passes}};
    const auto drafts = drafts_of(chain, true, 0.01);
    CHECK(count(drafts, 0) > 20);
    CHECK(count(drafts, 1) < 20);
    CHECK(chain.summary().find("a pass failed") != std::string::npos);
    CHECK_FALSE(chain.request());
    // What it drafted before it failed is no draft, and nothing is learned from it. Behind the first of
    // two passes it may have been complete.
    if (passes > 1) continue;
    fd::Chain<Shape::kChain, Cache> unasked{simulated::Drafter{found, 7}, Stepped{}};
    const auto rate = [](auto& of) { return of.controller().acceptance(1).rate(0.8f, 1); };
    CHECK(rate(chain) == rate(unasked));
  }
}

TEST_CASE("what the only drafter throws in a step is the caller's to know, and leaves no trace") {
  fd::Controlled failing{Stepped{0, 1}};
  CHECK_THROWS_AS(drafts_of(failing, true, 0.01, 2), std::runtime_error);
  failing.inner().passes_until_failure = Stepped::kAll;
  failing.reset();
  CHECK_FALSE(failing.request());
  CHECK(count(drafts_of(failing, true, 0.01), 0) > 100);
}

TEST_CASE("a draft that breaks the contract is refused behind its last pass") {
  struct Wide : Stepped {
    void advance(fd::DraftTree& draft, double) {
      for (int i = 0; i < 40; ++i) draft.extend(5);
      left = 0;
    }
  };
  fd::Controlled wide{Wide{}};
  CHECK_THROWS_AS(drafts_of(wide, true, 0.01, 2), fd::Error);
}

TEST_CASE("at a fixed depth of 0 all catch up; in steps models wait until they are to draft") {
  struct Asked : Stepped {
    void propose(const fd::Context&, fd::Limit, fd::DraftTree&) { ++*times; }
    std::shared_ptr<int> times = std::make_shared<int>();
  };
  Asked model;
  int searched = 0;
  const TreeFunction search{[&](const fd::Context&, fd::Limit, fd::DraftTree&) { ++searched; }};
  fd::Chain<Shape::kTree, Cache> chain{search, model};
  const std::vector<fd::TokenId> tokens{1, 2, 3};
  fd::DraftTree draft;
  draft.reset(3);
  chain.propose({tokens, {}, {}}, {.fixed = true}, draft);
  CHECK(searched == 1);
  CHECK(*model.times == 1);
  chain.begin({tokens, {}, {}}, {.fixed = true}, draft);
  CHECK_FALSE(chain.request());
  CHECK(searched == 2);
  CHECK(*model.times == 1);
  CHECK(draft.drafted() == 0);
}

TEST_CASE("of several models the one that drafts asks for a pass") {
  Cache good(10), dear(10);
  fd::Chain<Shape::kChain, Cache> chain{Stepped{0, Stepped::kAll, &dear},
                                        Stepped{0, Stepped::kAll, &good}};
  chain.use_clock(&simulated::clock);
  const std::vector<fd::TokenId> tokens{1, 2, 3};
  int asked = 0;
  for (int round = 0; round < 200; ++round) {
    fd::DraftTree draft;
    draft.reset(3);
    double cost = 0;
    chain.begin({tokens, {}, {}}, {.depth = 8, .nodes = 8}, draft);
    while (const auto request = chain.request()) {
      const bool is_good = request->cache == &good;
      REQUIRE((is_good || request->cache == &dear));
      asked += round >= 100 && is_good ? 1 : 0;
      cost += is_good ? 0.01 : 3.0;
      chain.advance(draft, is_good ? 0.01 : 3.0);
    }
    std::vector<fd::NodeIndex> path{0};
    std::vector<fd::TokenId> fresh;
    for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
      path.push_back(node);
      fresh.push_back(draft.token(node));
    }
    fresh.push_back(9);
    chain.commit({draft, path, fresh, fd::Scores{}, 2, {cost, 1.0}});
  }
  CHECK(asked > 200);
}

TEST_CASE("a chain makes the passes of models with other caches than it is told") {
  struct Own : Cache {};
  struct Other : Stepped {
    using DraftCache = Own;
    std::optional<fd::Request<DraftCache>> request() const { return std::nullopt; }
  };
  static_assert(fd::SteppedDrafter<Other>);
  static_assert(!fd::SteppedDrafter<fd::Chain<>> &&
                !fd::SteppedDrafter<fd::Controlled<fd::NoDraft>>);
  fd::Chain<Shape::kChain, Own> chain{Stepped{0.01}, Other{}};
  static_assert(fd::SteppedDrafter<decltype(chain)>);
  CHECK(count(drafts_of(chain, true, 1.0), 0) > 100);
}
