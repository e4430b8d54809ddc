#include <foredraft/sequence.hpp>

#include <foredraft/foredraft.hpp>
#include <stdexcept>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

struct Fixture {
  void run(const Tokens& prompt, int max_tokens) {
    sequence.begin(prompt);
    const auto call = new_call(max_tokens);
    fd::prefill(sequence, call);
    while (call->tokens_left() > 0) {
      fd::Turn turn(sequence, call);
      fd::forward_one(target, turn.request());
      turn.finish();
    }
  }
  std::shared_ptr<fd::Call> new_call(int max_tokens) {
    return std::make_shared<fd::Call>(fd::Options{.max_tokens = max_tokens}, target, fd::Greedy{});
  }

  toy::Target target{16, 0};
  fd::Sequence<toy::Target, toy::TokenCache, fd::NoDraft, fd::Greedy> sequence{
      target, toy::TokenCache(20), {}, {}};
};

}  // namespace

TEST_CASE("a sequence begins with a prompt and keeps what it shares with the text so far") {
  Fixture f;
  CHECK_FALSE(f.sequence.reading());
  CHECK(f.sequence.begin(Tokens{1, 2, 3}) == 0);
  CHECK(f.sequence.reading());
  CHECK(f.sequence.anchor() == 3);
  CHECK(f.sequence.context_left() == 17);
  f.run({1, 2, 3}, 4);
  CHECK_FALSE(f.sequence.reading());
  CHECK(f.sequence.tokens().size() == 7);
  CHECK(f.sequence.cache().size() == 6);
  CHECK(f.sequence.begin(Tokens{1, 2, 4, 5}) == 2);
  CHECK(f.sequence.cache().size() == 2);
  CHECK(f.sequence.begin(f.sequence.tokens().first(2)) == 1);  // all but the anchor
  CHECK_FALSE(f.sequence.reading());
}

TEST_CASE("a prompt that cannot be read is refused, and nothing has changed") {
  Fixture f;
  f.run({1, 2, 3}, 4);
  const Tokens before(f.sequence.tokens().begin(), f.sequence.tokens().end());
  for (const Tokens& prompt : {Tokens{}, Tokens(20, 1), Tokens{16}, Tokens{-1}}) {
    CHECK_THROWS_AS(f.sequence.begin(prompt), fd::Error);
    CHECK(std::ranges::equal(f.sequence.tokens(), before));
    CHECK(f.sequence.cache().size() == 6);
  }
  CHECK(f.sequence.begin(Tokens(19, 2)) == 0);
}

TEST_CASE("delivery goes on behind the token whose emit threw") {
  Fixture f;
  f.run({1, 2, 3}, 3);
  auto snapshot = f.sequence.snapshot();
  snapshot.undelivered = {{5, {}, true}, {6, {}, true}, {7, {}, false}};  // as of one round
  f.sequence.restore(snapshot);
  Tokens seen;
  const auto emit = [&](const fd::Emitted& emitted) {
    seen.push_back(emitted.token);
    if (emitted.token == 6) throw std::runtime_error("full disk");
  };
  CHECK_THROWS(f.sequence.deliver(emit));
  CHECK(seen == Tokens{5, 6});
  CHECK_NOTHROW(f.sequence.deliver(emit));
  CHECK_NOTHROW(f.sequence.deliver(emit));
  CHECK(seen == Tokens{5, 6, 7});
}

TEST_CASE("an end of the text is said once, a limit to whoever asks") {
  Fixture f;
  f.run({1, 2, 3}, 1);
  f.target.end_token = fd::Scores::argmax_of(f.target.logits_after(f.sequence.tokens()));
  const auto call = f.new_call(1);
  {
    fd::Turn turn(f.sequence, call);
    fd::forward_one(f.target, turn.request());
    turn.finish();
  }
  CHECK(f.sequence.take_end(*f.new_call(5)) == fd::FinishReason::kEnd);
  CHECK_FALSE(f.sequence.take_end(*f.new_call(5)));
  CHECK(f.sequence.take_end(*call) == fd::FinishReason::kLength);
  CHECK(f.sequence.take_end(*call) == fd::FinishReason::kLength);
  f.sequence.begin(Tokens(19, 1));
  f.run(Tokens(19, 1), 1);
  CHECK(f.sequence.take_end(*f.new_call(5)) == fd::FinishReason::kContext);
}
