#include <foredraft/drafter/any_drafter.hpp>

#include <foredraft/foredraft.hpp>
#include <memory>
#include <string>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

/// Notes which of its members are called, in a log that outlives it.
struct Recorder {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;
  using Snapshot = std::string;

  int max_depth() const { return 5; }
  void propose(const fd::Context&, fd::Limit limit, fd::DraftTree& draft) {
    *log += "propose " + std::to_string(limit.depth) + ";";
    draft.extend(7);
  }
  void absorb(const fd::PromptBlock& block) {
    *log += "absorb " + std::to_string(block.begin) + ";";
  }
  void commit(const fd::Round& round) noexcept {
    *log += "commit " + std::to_string(round.anchor_position) + ";";
  }
  void truncate(int n) noexcept { *log += "truncate " + std::to_string(n) + ";"; }
  void reset() noexcept { *log += "reset;"; }
  Snapshot snapshot() const { return "the state"; }
  void restore(const Snapshot& snapshot) { *log += "restore " + snapshot + ";"; }

  std::shared_ptr<std::string> log = std::make_shared<std::string>();
};

}  // namespace

TEST_CASE("every call reaches the drafter that is held") {
  Recorder recorder;
  fd::AnyDrafter<> any = recorder;
  fd::DraftTree draft;
  draft.reset(1);
  const fd::Scores scores;
  const std::vector<fd::TokenId> tokens{1};
  CHECK(any.max_depth() == 5);
  any.absorb({3, tokens, &scores});
  any.propose({tokens, {}, {}}, {4, 4}, draft);
  any.commit({draft, {}, tokens, scores, 6});
  any.truncate(2);
  any.reset();
  any.restore(any.snapshot());
  CHECK(draft.token(1) == 7);
  CHECK(*recorder.log == "absorb 3;propose 4;commit 6;truncate 2;reset;restore the state;");
}

TEST_CASE("a snapshot of another drafter is refused") {
  fd::AnyDrafter<> recorder = Recorder{};
  const fd::AnyDrafter<> lookup = fd::PromptLookup{};
  CHECK_THROWS_AS(recorder.restore(lookup.snapshot()), fd::Error);
}

TEST_CASE("a tree drafter drafts the same behind AnyDrafter") {
  toy::Target target(16, 0);
  const std::vector<fd::TokenId> prompt{3, 1, 4};
  fd::Decoder plain{target, toy::TokenCache{}, fd::AnyDrafter<>(fd::NoDraft{}), fd::Greedy{}};
  plain.generate(prompt, {.max_tokens = 60});
  const std::vector<fd::TokenId> truth(plain.tokens().begin(), plain.tokens().end());
  const OracleDrafter oracle(truth, 16, 0.3, 5, 2);
  fd::Decoder direct{target, toy::TokenCache{}, oracle, fd::Greedy{}};
  fd::Decoder erased{target, toy::TokenCache{}, fd::AnyDrafter<fd::Shape::kTree>(oracle),
                     fd::Greedy{}};
  const fd::Result a = direct.generate(prompt, {.max_tokens = 60, .n_draft = 5});
  const fd::Result b = erased.generate(prompt, {.max_tokens = 60, .n_draft = 5});
  CHECK(std::ranges::equal(erased.tokens(), truth));
  CHECK(b.stats.accepted == a.stats.accepted);
  CHECK(b.stats.drafted == a.stats.drafted);
  CHECK(b.stats.accepted > 0);
}
