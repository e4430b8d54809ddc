#include <foredraft/core/options.hpp>

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/complaint.hpp"

namespace fd = foredraft;

namespace {

std::string complaint(const fd::Options& options) { return complaint_about(options); }

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("options in range are taken, limits included") {
  CHECK(complaint({}).empty());
  CHECK(complaint({.max_tokens = -1, .n_draft = 0, .prefill_block = 1}).empty());
  CHECK(complaint({.sampling = {.temperature = 1e-8f, .top_k = 1, .top_p = 1e-6f, .min_p = 1.0f}})
            .empty());
  CHECK(complaint({.sampling = {.temperature = 5.0f}, .stop = {"a"}}).empty());
  CHECK(complaint({.sampling = {.repeat_penalty = 0.001f, .presence_penalty = -1000.0f}}).empty());
  CHECK(complaint({.sampling = {.repeat_penalty = 1000.0f, .frequency_penalty = 1000.0f}}).empty());
}

TEST_CASE("a value out of range is named") {
  CHECK(complaint({.sampling = {.temperature = -0.5f}}).starts_with("temperature -0.5"));
  CHECK(complaint({.sampling = {.temperature = std::nanf("")}}).starts_with("temperature"));
  CHECK(complaint({.sampling = {.temperature = kInfinity}}).starts_with("temperature"));
  CHECK(complaint({.sampling = {.temperature = 1.0f, .top_k = -1}}).starts_with("top_k -1"));
  for (const float p : {0.0f, -0.1f, 1.1f, std::nanf("")}) {
    CHECK(complaint({.sampling = {.temperature = 1.0f, .top_p = p}}).starts_with("top_p"));
  }
  for (const float p : {-0.1f, 1.1f, std::nanf("")}) {
    CHECK(complaint({.sampling = {.temperature = 1.0f, .min_p = p}}).starts_with("min_p"));
  }
  for (const float penalty : {0.0f, -1.0f, 1e-38f, 1001.0f, kInfinity, std::nanf("")}) {
    CHECK(complaint({.sampling = {.repeat_penalty = penalty}}).starts_with("repeat_penalty"));
  }
  for (const float penalty : {-1001.0f, 1e38f, -kInfinity, std::nanf("")}) {
    CHECK(complaint({.sampling = {.presence_penalty = penalty}})
              .starts_with("a presence or frequency"));
    CHECK(complaint({.sampling = {.frequency_penalty = penalty}})
              .starts_with("a presence or frequency"));
  }
  CHECK(complaint({.n_draft = -2}).starts_with("n_draft -2"));
  CHECK(complaint({.n_nodes = 0}).starts_with("n_nodes 0"));
  CHECK(complaint({.n_nodes = -2}).starts_with("n_nodes -2"));
  CHECK(complaint({.n_draft = 3, .n_nodes = 1}).empty());
  CHECK(complaint({.logprobs = -2}).starts_with("logprobs -2"));
  CHECK(complaint({.logprobs = 0}).empty());
  CHECK(complaint({.prefill_block = 0}).starts_with("prefill_block 0"));
  CHECK_FALSE(complaint({.stop = {"ok", ""}}).empty());
}

TEST_CASE("what could have no effect is refused") {
  CHECK(complaint({.n_draft = 0, .n_nodes = 4}).starts_with("n_nodes with n_draft 0"));
  CHECK_FALSE(complaint({.sampling = {.top_k = 40}}).empty());
  CHECK_FALSE(complaint({.sampling = {.top_p = 0.9f}}).empty());
  CHECK_FALSE(complaint({.sampling = {.min_p = 0.1f}}).empty());
  CHECK_FALSE(complaint({.end_tokens = {1}, .ignore_end = true}).empty());
  CHECK(complaint({.end_tokens = {1}}).empty());
  CHECK(complaint({.ignore_end = true}).empty());
  CHECK_FALSE(complaint({.sampling = {.repeat_penalty = 1.1f, .penalty_last_n = 0}}).empty());
  CHECK_FALSE(complaint({.sampling = {.penalty_last_n = 7}}).empty());
  CHECK(complaint({.sampling = {.repeat_penalty = 1.1f, .penalty_last_n = 7}}).empty());
}

TEST_CASE("the sampling options are those of the call") {
  const fd::Options options{
      .sampling = {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f}};
  CHECK(options.sampling == fd::SamplingOptions{0.7f, 40, 0.9f, 0.05f});
  CHECK_FALSE(options.sampling.greedy());
  CHECK(fd::Options{}.sampling.greedy());
}

TEST_CASE("the best token alone suffices at temperature 0, unless penalties may make it another") {
  CHECK(fd::SamplingOptions{}.argmax_suffices());
  CHECK_FALSE(fd::SamplingOptions{.temperature = 0.7f}.argmax_suffices());
  CHECK_FALSE(fd::SamplingOptions{.repeat_penalty = 1.1f}.argmax_suffices());
  CHECK_FALSE(fd::SamplingOptions{.presence_penalty = 0.1f}.argmax_suffices());
  CHECK_FALSE(fd::SamplingOptions{.frequency_penalty = 0.1f}.argmax_suffices());
}
