#include <foredraft/core/sampling_checks.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/complaint.hpp"

namespace fd = foredraft;
using enum fd::Sampler;

namespace {

std::string complaint(const fd::SamplingOptions& options) { return complaint_about(options); }

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

}  // namespace

TEST_CASE("sampling options in range are taken, limits included") {
  for (const fd::SamplingOptions& options : std::vector<fd::SamplingOptions>{
           {},
           {.logit_bias = {{0, -kInfinity}, {1, 1000.0f}, {2, -1000.0f}}},
           {.bad_words = {{1}, {1, 2, 3}}},
           {.dry_multiplier = 0.8f,
            .dry_base = 1.0f,
            .dry_allowed_length = 1,
            .dry_breakers = {{3}}},
           {.temperature = 1.0f, .dynatemp_range = 3.0f, .dynatemp_exponent = 0.1f},
           {.temperature = 1.0f, .typical_p = 0.001f, .top_n_sigma = 5.0f},
           {.temperature = 1.0f, .xtc_probability = 1.0f, .xtc_threshold = 0.5f},
           {.temperature = 1.0f, .mirostat = 2, .mirostat_tau = 0.1f, .mirostat_eta = 1.0f},
           {.reasoning = {.tokens = 0, .open = {1}, .close = {2}, .message = {3}}},
           {.temperature = 1.0f, .samplers = {kTopK}},
           {.samplers = {kTopK}},
           {.temperature = 0.5f, .top_k = 2, .samplers = {kTopK, kTemperature}}}) {
    CHECK(complaint(options).empty());
  }
}

TEST_CASE("a sampling option out of range is named") {
  for (const float bias : {kNan, kInfinity, 1001.0f}) {
    CHECK(complaint({.logit_bias = {{0, bias}}}).starts_with("a logit bias"));
  }
  CHECK(complaint({.bad_words = {{1}, {}}}) == "an empty bad word");
  CHECK(complaint({.dry_multiplier = -1.0f}).starts_with("dry_multiplier"));
  CHECK(complaint({.dry_multiplier = 1.0f, .dry_base = 0.9f}).starts_with("dry_base"));
  CHECK(complaint({.dry_multiplier = 1.0f, .dry_allowed_length = 0}).starts_with("dry_allowed"));
  CHECK(complaint({.dry_multiplier = 1.0f, .dry_penalty_last_n = 0}).starts_with("dry_penalty"));
  CHECK(complaint({.dry_multiplier = 1.0f, .dry_breakers = {{}}}) == "an empty DRY breaker");
  CHECK(complaint({.temperature = 1.0f, .dynatemp_range = -1.0f}).starts_with("dynatemp_range"));
  CHECK(complaint({.temperature = 1.0f, .dynatemp_range = 1.0f, .dynatemp_exponent = 0.0f})
            .starts_with("dynatemp_exponent"));
  for (const float p : {0.0f, 1.1f, kNan}) {
    CHECK(complaint({.temperature = 1.0f, .typical_p = p}).starts_with("typical_p"));
  }
  for (const float n : {-1.0f, kInfinity, kNan}) {
    CHECK(complaint({.temperature = 1.0f, .top_n_sigma = n}).starts_with("top_n_sigma"));
  }
  CHECK(complaint({.temperature = 1.0f, .xtc_probability = 1.5f}).starts_with("xtc_probability"));
  for (const float threshold : {0.0f, 0.6f, kNan}) {
    CHECK(complaint({.temperature = 1.0f, .xtc_probability = 0.5f, .xtc_threshold = threshold})
              .starts_with("xtc_threshold"));
  }
  CHECK(complaint({.temperature = 1.0f, .mirostat = 1}) == "mirostat 1");
  CHECK(complaint({.temperature = 1.0f, .mirostat = 2, .mirostat_tau = 0.0f})
            .starts_with("mirostat_tau"));
  CHECK(complaint({.temperature = 1.0f, .mirostat = 2, .mirostat_eta = 0.0f})
            .starts_with("mirostat_eta"));
  CHECK(complaint({.reasoning = {.tokens = -2}}).starts_with("a reasoning budget of -2"));
  CHECK(complaint({.reasoning = {.tokens = 1, .open = {1}}})
            .starts_with("a reasoning budget without markers"));
}

TEST_CASE("sampling options that could have no effect are refused") {
  for (const fd::SamplingOptions& options : std::vector<fd::SamplingOptions>{
           {.dry_base = 2.0f},
           {.dry_breakers = {{1}}},
           {.temperature = 1.0f, .dynatemp_exponent = 2.0f},
           {.temperature = 1.0f, .xtc_threshold = 0.2f},
           {.temperature = 1.0f, .mirostat_tau = 3.0f},
           {.reasoning = {.open = {1}, .close = {2}, .message = {3}}},
           {.dynatemp_range = 0.5f},  // at temperature 0, as all that follow
           {.typical_p = 0.5f},
           {.top_n_sigma = 1.0f},
           {.xtc_probability = 0.5f},
           {.mirostat = 2},
           {.temperature = 1.0f, .top_k = 3, .mirostat = 2},
           {.temperature = 1.0f, .xtc_probability = 0.5f, .mirostat = 2},
           {.temperature = 1.0f, .top_k = 3, .samplers = {kTopP}},
           {.temperature = 0.5f, .samplers = {kTopP}},
           {.temperature = 1.0f, .samplers = {kTopP, kTopK, kTopP}}}) {
    CHECK_FALSE(complaint(options).empty());
  }
}
