#include <foredraft/testing/law_by_definition.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace law = foredraft::testing;

namespace {

using P = std::vector<double>;
using Tokens = std::vector<fd::TokenId>;

std::vector<float> logs(const P& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

/// The law rounded to hundredths.
std::vector<int> hundredths(const P& p) {
  std::vector<int> rounded;
  for (const double x : p) rounded.push_back(static_cast<int>(std::lround(100 * x)));
  return rounded;
}

std::vector<int> law_of(const fd::SamplingOptions& options, const P& p, const Tokens& text = {},
                        double most_surprise = 100) {
  return hundredths(law::p_of(logs(p), options, text, most_surprise));
}

using Percent = std::vector<int>;

}  // namespace

// Each worked out by hand, so that the oracle of all other tests rests on something.
TEST_CASE("the definitions give what is worked out by hand") {
  const P p{0.4, 0.3, 0.2, 0.1};
  CHECK(law_of({.temperature = 1.0f}, p) == Percent{40, 30, 20, 10});
  CHECK(law_of({.temperature = 0.5f}, p) == Percent{53, 30, 13, 3});  // squares, of .3
  CHECK(law_of({.temperature = 1.0f, .top_k = 2}, p) == Percent{57, 43, 0, 0});
  CHECK(law_of({.temperature = 1.0f, .top_p = 0.75f}, p) == Percent{44, 33, 22, 0});
  CHECK(law_of({.temperature = 1.0f, .min_p = 0.6f}, p) == Percent{57, 43, 0, 0});
  // Surprises .92 1.20 1.61 2.30, entropy 1.28.
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.2f}, p) == Percent{0, 100, 0, 0});
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.4f}, p) == Percent{0, 60, 40, 0});
  // Deviation of the logs .514; the second is .288 below the best.
  CHECK(law_of({.temperature = 1.0f, .top_n_sigma = 0.6f}, p) == Percent{57, 43, 0, 0});
  CHECK(law_of({.temperature = 1.0f, .xtc_probability = 0.5f, .xtc_threshold = 0.25f}, p) ==
        Percent{20, 40, 27, 13});
  CHECK(law_of({.temperature = 1.0f, .mirostat = 2}, p, {}, 2.0) == Percent{57, 43, 0, 0});
  CHECK(law_of({.temperature = 1.0f, .mirostat = 2}, p, {}, 0.5) == Percent{100, 0, 0, 0});
  // Entropy 1.28 of 1.39: temperature .5 + 1 * .923 = 1.42.
  CHECK(law_of({.temperature = 1.0f, .dynatemp_range = 0.5f}, p) == Percent{36, 29, 22, 13});
}

TEST_CASE("the definitions of what looks back give what is worked out by hand") {
  const P p{0.4, 0.3, 0.2, 0.1};
  const float log2 = std::log(2.0f);
  CHECK(law_of({.temperature = 1.0f, .presence_penalty = 2 * log2}, p, {0, 0, 0}) ==
        Percent{14, 43, 29, 14});
  CHECK(law_of({.temperature = 1.0f, .frequency_penalty = log2}, p, {0, 0}) ==
        Percent{14, 43, 29, 14});
  CHECK(law_of({.temperature = 1.0f, .bad_words = {{2, 0}}}, p, {2}) == Percent{0, 50, 33, 17});
  CHECK(law_of({.temperature = 1.0f, .bad_words = {{2, 0}}}, p, {1}) == Percent{40, 30, 20, 10});
  CHECK(law_of({.temperature = 1.0f, .logit_bias = {{3, log2}}}, p) == Percent{36, 27, 18, 18});
  CHECK(law_of({.temperature = 1.0f, .dry_multiplier = 2 * log2, .dry_allowed_length = 1}, p,
               {1, 0, 1}) == Percent{14, 43, 29, 14});
  CHECK(law_of({.temperature = 1.0f, .held_back = {{0}, 2}}, p, {1}) == Percent{0, 50, 33, 17});
  const fd::ReasoningBudget budget{.tokens = 1, .open = {0}, .close = {1}, .message = {2}};
  CHECK(law_of({.temperature = 1.0f, .reasoning = budget}, p, {0, 3}) == Percent{0, 0, 100, 0});
  CHECK(law_of({.temperature = 1.0f, .reasoning = budget}, p, {0, 3, 2}) == Percent{0, 100, 0, 0});
  CHECK(law_of({.reasoning = budget}, p, {0}) == Percent{100, 0, 0, 0});
}
