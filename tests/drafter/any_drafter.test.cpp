#include <foredraft/drafter/any_drafter.hpp>

#include <algorithm>
#include <foredraft/foredraft.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

/// Notes which of its members are called, in a log that outlives it.
struct Recorder {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr bool controls = false;
  using Snapshot = std::string;

  int max_depth() const { return 5; }
  std::optional<int> backlog(int n_tokens) const { return n_tokens - 3; }
  std::string summary() const { return "said"; }
  bool continues() const { return true; }
  std::span<const int> taps() const { return layers; }
  fd::RowNeed needs() const { return fd::RowNeed::kLogits; }
  void attach(const fd::TargetInfo& target) {
    *log += "attach " + std::to_string(target.n_vocab) + ";";
  }
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

  std::vector<int> layers{2, 7};
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
  CHECK(any.backlog(10) == 7);
  CHECK(any.summary() == "said");
  CHECK(any.continues());
  CHECK(any.get<Recorder>() != nullptr);
  CHECK(any.get<fd::NoDraft>() == nullptr);
  CHECK(std::ranges::equal(any.taps(), recorder.layers));
  CHECK(any.needs() == fd::RowNeed::kLogits);
  any.attach({.n_vocab = 9});
  any.absorb({3, tokens, &scores});
  any.propose({tokens, {}, {}}, {4, 4}, draft);
  any.commit({draft, {}, tokens, scores, 6});
  any.truncate(2);
  any.reset();
  any.restore(any.snapshot());
  CHECK(draft.token(1) == 7);
  CHECK(*recorder.log ==
        "attach 9;absorb 3;propose 4;commit 6;truncate 2;reset;restore the state;");
}

TEST_CASE("a snapshot of another drafter is refused") {
  fd::AnyDrafter<> recorder = Recorder{};
  const fd::AnyDrafter<> lookup = fd::PromptLookup{};
  CHECK_THROWS_AS(recorder.restore(lookup.snapshot()), fd::Error);
}

namespace {

/// A target whose taps are the numbers of their layer and token.
struct TappedTarget {
  static constexpr bool row_exact = true;
  int vocab_size() const { return toy.vocab_size(); }
  void forward(std::span<fd::Request<toy::TokenCache>> requests) {
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, vocab_size(), 2);
      for (int row = 0; row < request.count; ++row) {
        const auto prefix = request.cache->text_of(request.first + row);
        request.scores->set_row(row, toy.logits_after(prefix));
        for (const int layer : request.scores->tapped()) {
          const auto to = request.scores->tap(row, layer);
          to[0] = static_cast<float>(layer);
          to[1] = static_cast<float>(prefix.back());
        }
      }
    }
  }
  toy::Target toy{16, 0};
};

/// Reads its taps of each final token.
struct TapReader : fd::NoDraft {
  std::span<const int> taps() const noexcept { return layers; }
  void absorb(const fd::PromptBlock& block) {
    for (int i = 0; i < block.scores->rows(); ++i) read(*block.scores, i);
  }
  void commit(const fd::Round& round) noexcept {
    for (const fd::NodeIndex node : round.path) read(round.scores, node);
  }
  void read(const fd::Scores& scores, int row) {
    for (const int layer : layers) {
      const auto values = scores.tap(row, layer);
      seen->insert(seen->end(), values.begin(), values.end());
    }
  }
  std::vector<int> layers{2, 7};
  std::shared_ptr<std::vector<float>> seen = std::make_shared<std::vector<float>>();
};

}  // namespace

TEST_CASE("a drafter reads the taps that it asked for, held, among others or alone") {
  TappedTarget target;
  const std::vector<fd::TokenId> prompt{3, 1, 4};
  const TapReader reader;
  TapReader other;
  other.layers = {9, 2};
  const auto check_seen = [](const TapReader& by, std::span<const fd::TokenId> tokens) {
    std::vector<float> expected;
    for (const fd::TokenId token : tokens) {
      for (const int layer : by.layers) {
        expected.insert(expected.end(), {static_cast<float>(layer), static_cast<float>(token)});
      }
    }
    CHECK(*by.seen == expected);
    by.seen->clear();
  };
  const auto seen_by = [&](auto drafter) {
    fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::Greedy{}};
    decoder.generate(prompt, {.max_tokens = 5});
    return std::vector<fd::TokenId>(decoder.tokens().begin(), decoder.tokens().begin() + 7);
  };
  check_seen(reader, seen_by(reader));
  check_seen(other, seen_by(other));
  check_seen(reader, seen_by(fd::AnyDrafter<>(reader)));
  check_seen(reader, seen_by(fd::AnyDrafter<fd::Shape::kTree>(fd::AnyDrafter<>(reader))));
  const auto tokens = seen_by(fd::Chain{reader, fd::NoDraft{}, other});
  check_seen(reader, tokens);
  check_seen(other, tokens);
}

TEST_CASE("a drafter that is held is attached to its target") {
  struct Refusing : fd::NoDraft {
    void attach(const fd::TargetInfo&) const {
      throw fd::Error(fd::ErrorCode::kVocabularyMismatch, "another", "mine", "");
    }
  };
  toy::Target target(16, 0);
  const auto build = [&] {
    fd::Decoder decoder{target, toy::TokenCache{}, fd::AnyDrafter<>(Refusing{}), fd::Greedy{}};
  };
  CHECK_THROWS_AS(build(), fd::Error);
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
