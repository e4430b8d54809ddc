#include <foredraft/core/round_event.hpp>

#include <foredraft/foredraft.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

const Tokens kPrompt{3, 1, 4, 1, 5};
constexpr int kVocab = 24;

fd::Result plain(toy::Target& target, const fd::Options& options) {
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
  return decoder.generate(kPrompt, options);
}

Tokens with_prompt(const Tokens& tokens) {
  Tokens all = kPrompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

}  // namespace

TEST_CASE("every token of a text is in one event, and events agree with the statistics") {
  toy::Target target(kVocab, 0);
  for (const int branches : {1, 3}) {
    for (const float temperature : {0.0f, 1.0f}) {
      for (const int max_tokens : {1, 2, 7, 60}) {
        fd::Options options{.max_tokens = max_tokens,
                            .n_draft = 5,
                            .sampling = {.temperature = temperature},
                            .seed = 7};
        const fd::Result truth = plain(target, options);
        Tokens seen;
        std::vector<bool> from_draft;
        fd::Stats sums;
        fd::Position next = static_cast<fd::Position>(kPrompt.size()) - 1;
        options.observer = [&](const fd::RoundEvent& event) {
          CHECK(event.number == sums.rounds++);
          CHECK(event.anchor_position == next);
          CHECK(event.draft.token(0) == (seen.empty() ? kPrompt.back() : seen.back()));
          REQUIRE(!event.path.empty());
          CHECK(event.path[0] == 0);
          const int accepted = static_cast<int>(event.path.size()) - 1;
          CHECK((event.emitted.size() == event.path.size() ||
                 event.emitted.size() + 1 == event.path.size()));
          for (std::size_t i = 0; i < event.emitted.size(); ++i) {
            const bool drafted = i + 1 < event.path.size();
            CHECK(event.emitted[i].from_draft == drafted);
            if (drafted) {
              CHECK(event.draft.parent(event.path[i + 1]) == event.path[i]);
              CHECK(event.draft.token(event.path[i + 1]) == event.emitted[i].token);
            }
            // The rows can be asked: each explains the token that came of it.
            if (temperature == 0.0f) {
              CHECK(event.rows.argmax(event.path[i]) == event.emitted[i].token);
            } else {
              CHECK(event.rows.probability(event.path[i], event.emitted[i].token) > 0);
            }
            seen.push_back(event.emitted[i].token);
            from_draft.push_back(drafted);
          }
          sums.drafted += event.draft.drafted();
          sums.accepted += accepted;
          sums.seconds += event.seconds;
          next += static_cast<fd::Position>(event.emitted.size());
        };
        fd::Decoder decoder{target, toy::TokenCache{},
                            OracleDrafter::sweeping(with_prompt(truth.tokens), kVocab, branches),
                            fd::SampleAndMatch{}};
        const fd::Result result = decoder.generate(kPrompt, options);
        CHECK(result.tokens == truth.tokens);
        CHECK(seen == truth.tokens);
        CHECK(from_draft == result.from_draft);
        CHECK(sums.rounds == result.stats.rounds);
        CHECK(sums.drafted == result.stats.drafted);
        CHECK(sums.accepted == result.stats.accepted);
        CHECK(sums.seconds.verify == Approx(result.stats.seconds.verify));
        CHECK(sums.seconds.draft == Approx(result.stats.seconds.draft));
        CHECK(sums.seconds.total <= result.stats.seconds.total);
      }
    }
  }
}

TEST_CASE("an observer that throws ends the call; the round stays, and the text goes on") {
  toy::Target target(kVocab, 0);
  const fd::Result truth = plain(target, {.max_tokens = 40});
  for (int fatal = 0; fatal < 8; ++fatal) {
    fd::Decoder decoder{target, toy::TokenCache{},
                        OracleDrafter::sweeping(with_prompt(truth.tokens), kVocab), fd::Greedy{}};
    fd::Options options{.max_tokens = 40, .n_draft = 4};
    options.observer = [&](const fd::RoundEvent& event) {
      if (event.number == fatal) throw std::runtime_error("the disk is full");
    };
    Tokens seen;
    const auto emit = [&](const fd::Emitted& token) { seen.push_back(token.token); };
    CHECK_THROWS_WITH(decoder.generate(kPrompt, options, emit), "the disk is full");
    CHECK(decoder.tokens().size() > kPrompt.size() + seen.size());
    const int left = 40 - static_cast<int>(decoder.tokens().size() - kPrompt.size());
    decoder.resume({.max_tokens = left, .n_draft = 4}, emit);
    CHECK(seen == truth.tokens);
  }
}
