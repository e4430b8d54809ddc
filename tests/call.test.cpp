#include <foredraft/call.hpp>

#include <algorithm>
#include <foredraft/foredraft.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

TEST_CASE("a call fills in what the options leave to the target") {
  toy::Target target{16};
  target.end_token = 5;
  const fd::Call left_open({}, target, fd::Greedy{});
  CHECK(left_open.is_end(5));
  CHECK_FALSE(left_open.is_end(6));
  CHECK(left_open.options().piece(1) == target.piece(1));
  const fd::Call own({.end_tokens = {6}, .piece = [](fd::TokenId) { return "own"; }}, target,
                     fd::Greedy{});
  CHECK_FALSE(own.is_end(5));
  CHECK(own.is_end(6));
  CHECK(own.options().piece(1) == "own");
  CHECK_FALSE(fd::Call({.ignore_end = true}, target, fd::Greedy{}).is_end(5));
}

TEST_CASE("a call knows what its rule and log probabilities read of a row") {
  const toy::Target target{16};
  CHECK(fd::Call({}, target, fd::Greedy{}).need() == fd::RowNeed::kArgmax);
  CHECK(fd::Call({.logprobs = 0}, target, fd::Greedy{}).need() == fd::RowNeed::kLogits);
  CHECK(
      fd::Call({.sampling = {.temperature = 1.0f}, .logprobs = 16}, target, fd::RejectionSampling{})
          .need() == fd::RowNeed::kSums);
  CHECK_THROWS_AS(fd::Call({.logprobs = 17}, target, fd::Greedy{}), fd::Error);
  CHECK_THROWS_AS(fd::Call({.sampling = {.temperature = 1.0f}}, target, fd::Greedy{}), fd::Error);
  CHECK_FALSE(fd::Call({}, target, fd::Greedy{}).uses_law());
  CHECK(fd::Call({}, target, fd::RejectionSampling{}).uses_law());
}

TEST_CASE("what the target may not write is forbidden, beside the caller's own biases") {
  struct Suppressing : toy::Target {
    using toy::Target::Target;
    std::vector<fd::TokenId> never;
    std::span<const fd::TokenId> suppressed() const { return never; }
  };
  Suppressing target{16};
  CHECK(fd::Call({}, target, fd::Greedy{}).need() == fd::RowNeed::kArgmax);
  target.never = {4, 9};
  const fd::Options asked{.sampling = {.logit_bias = {{2, 1.5f}}}};
  const fd::Call call(asked, target, fd::Greedy{});
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  CHECK(call.sampling(0).logit_bias ==
        fd::SharedList<fd::LogitBias>{{2, 1.5f}, {4, kNever}, {9, kNever}});
  CHECK(call.need() == fd::RowNeed::kLogits);

  const std::vector<fd::TokenId> prompt{1, 2, 3};
  const auto text = [&] {
    fd::Decoder decoder{target, toy::TokenCache{128}, fd::PromptLookup{{.min_match = 1}},
                        fd::Greedy{}};
    return decoder.generate(prompt, {.max_tokens = 40}).tokens;
  };
  target.never = {};
  const auto before = text();
  target.never = {before.front()};
  const auto after = text();
  CHECK(std::ranges::count(after, before.front()) == 0);
  CHECK(after.size() == 40);
}

TEST_CASE("tokens left are those that the call has not made final yet") {
  const toy::Target target{16};
  fd::Call call({.max_tokens = 5}, target, fd::Greedy{});
  call.stats.emitted = 3;
  CHECK(call.tokens_left() == 2);
  fd::Call unlimited({.max_tokens = -1}, target, fd::Greedy{});
  unlimited.stats.emitted = 1000;
  CHECK(unlimited.tokens_left() > 1000000);
}

TEST_CASE("a call outlives the options that it was made of") {
  const toy::Target target{16};
  std::optional<fd::Options> options(
      fd::Options{.seed = 7, .end_tokens = {3}, .cancelled = [] { return true; }});
  fd::Call call(*options, target, fd::Greedy{});
  options.reset();
  CHECK(call.is_end(3));
  CHECK(call.cancelled());
  fd::Philox seven(7), eight(8);
  int same = 0, other = 0;
  for (int i = 0; i < 64; ++i) {
    const fd::RngKey at{fd::Purpose::kAccept, i, 0};
    const bool drawn = call.rng().bernoulli(at, 0.5);
    same += drawn == seven.bernoulli(at, 0.5);
    other += drawn == eight.bernoulli(at, 0.5);
  }
  CHECK(same == 64);
  CHECK(other < 64);
  fd::Call lent({}, target, fd::Greedy{}, &seven);
  CHECK(&lent.rng() == &seven);
}
