#include <foredraft/core/sampling_options.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
using enum fd::Sampler;

TEST_CASE("what adjusts logits, cuts, or needs every step is said of the options") {
  CHECK(fd::SamplingOptions{.temperature = 0.7f}.tempered());
  CHECK_FALSE(fd::SamplingOptions{}.tempered());
  CHECK(fd::SamplingOptions{.temperature = 1.0f, .logit_bias = {{1, 1.0f}}}.tempered());
  for (const fd::SamplingOptions& options :
       std::vector<fd::SamplingOptions>{{.temperature = 1.0f, .typical_p = 0.9f},
                                        {.temperature = 1.0f, .top_n_sigma = 1.0f},
                                        {.temperature = 1.0f, .xtc_probability = 0.5f},
                                        {.temperature = 1.0f, .mirostat = 2}}) {
    CHECK(options.cuts());
    CHECK(options.stepwise());
    CHECK_FALSE(options.tempered());
    CHECK_FALSE(options.adjusts());
  }
  for (const fd::SamplingOptions& options :
       std::vector<fd::SamplingOptions>{{.temperature = 1.0f, .top_k = 3},
                                        {.temperature = 1.0f, .top_p = 0.9f},
                                        {.temperature = 1.0f, .min_p = 0.1f}}) {
    CHECK(options.cuts());
    CHECK_FALSE(options.stepwise());  // they have short cuts
  }
  CHECK(fd::SamplingOptions{.temperature = 1.0f, .dynatemp_range = 0.5f}.stepwise());
  CHECK_FALSE(fd::SamplingOptions{.temperature = 1.0f, .dynatemp_range = 0.5f}.cuts());
}

TEST_CASE("options that change logits leave the best token to whoever reads the row") {
  for (const fd::SamplingOptions& options :
       std::vector<fd::SamplingOptions>{{.repeat_penalty = 1.1f},
                                        {.logit_bias = {{1, 1.0f}}},
                                        {.bad_words = {{1}}},
                                        {.dry_multiplier = 0.5f},
                                        {.reasoning = {.tokens = 5, .open = {1}, .close = {2}}},
                                        {.held_back = {{1}, 5}}}) {
    CHECK(options.adjusts());
    CHECK_FALSE(options.argmax_suffices());
  }
  CHECK(fd::SamplingOptions{}.argmax_suffices());
}

TEST_CASE("an order counts where what is used comes otherwise than by default") {
  fd::SamplingOptions options{.temperature = 0.7f, .top_k = 5, .top_p = 0.9f};
  CHECK_FALSE(options.reordered());
  options.samplers = {kTopK, kTopP, kTemperature};
  CHECK(options.reordered());
  options.samplers = {kTemperature, kXtc, kTopK, kTypicalP, kTopP};  // the unused do not count
  CHECK_FALSE(options.reordered());
  options.samplers = {kTopK, kTopP, kTemperature};
  options.temperature = 1.0f;  // which does nothing, wherever it is done
  CHECK_FALSE(options.reordered());
}

TEST_CASE("a ranking keeps what forbids and penalises, and nothing that cuts") {
  const fd::SamplingOptions options{.temperature = 0.3f,
                                    .top_p = 0.5f,
                                    .repeat_penalty = 1.5f,
                                    .bad_words = {{7}},
                                    .dynatemp_range = 0.2f,
                                    .typical_p = 0.5f,
                                    .xtc_probability = 0.5f,
                                    .samplers = {kXtc, kTemperature}};
  const fd::SamplingOptions ranking = options.ranking(3);
  CHECK(ranking ==
        fd::SamplingOptions{
            .temperature = 1.0f, .top_k = 3, .repeat_penalty = 1.5f, .bad_words = {{7}}});
  CHECK_FALSE(ranking.stepwise());
}
