#include <foredraft/core/options.hpp>

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// What is wrong with the options, or nothing.
std::string complaint(const fd::Options& options) {
  try {
    fd::check(options);
    return {};
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidOption);
    CHECK_FALSE(error.expected().empty());
    CHECK_FALSE(error.hint().empty());
    return error.found();
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("options in range are taken, limits included") {
  CHECK(complaint({}).empty());
  CHECK(complaint({.max_tokens = -1, .n_draft = 0, .prefill_block = 1}).empty());
  CHECK(complaint({.temperature = 1e-8f, .top_k = 1, .top_p = 1e-6f, .min_p = 1.0f}).empty());
  CHECK(complaint({.temperature = 5.0f, .stop = {"a"}}).empty());
}

TEST_CASE("a value out of range is named") {
  CHECK(complaint({.temperature = -0.5f}).starts_with("temperature -0.5"));
  CHECK(complaint({.temperature = std::nanf("")}).starts_with("temperature"));
  CHECK(complaint({.temperature = kInfinity}).starts_with("temperature"));
  CHECK(complaint({.temperature = 1.0f, .top_k = -1}).starts_with("top_k -1"));
  for (const float p : {0.0f, -0.1f, 1.1f, std::nanf("")}) {
    CHECK(complaint({.temperature = 1.0f, .top_p = p}).starts_with("top_p"));
  }
  for (const float p : {-0.1f, 1.1f, std::nanf("")}) {
    CHECK(complaint({.temperature = 1.0f, .min_p = p}).starts_with("min_p"));
  }
  CHECK(complaint({.n_draft = -1}).starts_with("n_draft -1"));
  CHECK(complaint({.logprobs = -2}).starts_with("logprobs -2"));
  CHECK(complaint({.logprobs = 0}).empty());
  CHECK(complaint({.prefill_block = 0}).starts_with("prefill_block 0"));
  CHECK_FALSE(complaint({.stop = {"ok", ""}}).empty());
}

TEST_CASE("what could have no effect is refused") {
  CHECK_FALSE(complaint({.top_k = 40}).empty());
  CHECK_FALSE(complaint({.top_p = 0.9f}).empty());
  CHECK_FALSE(complaint({.min_p = 0.1f}).empty());
  CHECK_FALSE(complaint({.end_tokens = {1}, .ignore_end = true}).empty());
  CHECK(complaint({.end_tokens = {1}}).empty());
  CHECK(complaint({.ignore_end = true}).empty());
}

TEST_CASE("the sampling options are those of the call") {
  const fd::Options options{.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f};
  CHECK(options.sampling() == fd::SamplingOptions{0.7f, 40, 0.9f, 0.05f});
  CHECK_FALSE(options.sampling().greedy());
  CHECK(fd::Options{}.sampling().greedy());
}
