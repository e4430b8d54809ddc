#include <foredraft/sampling/stepwise_law.hpp>

#include <foredraft/sampling/transforms.hpp>

#include <cmath>
#include <numeric>
#include <random>

#include "support/catch.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;
using enum fd::Sampler;

namespace {

using Ids = std::vector<fd::TokenId>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Logits of a law.
std::vector<float> logs(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

fd::Law law_of(const fd::SamplingOptions& options, const std::vector<float>& logits,
               const fd::History& history = {}) {
  fd::Transforms transforms;
  fd::Law p;
  transforms.apply(options, logits, history, p);
  return p;
}

std::vector<float> random_logits(std::mt19937& random, std::size_t n) {
  std::vector<float> logits(n);
  for (float& x : logits) {
    x = static_cast<float>(random() % 2000) / 200.0f - 5.0f;
    if (random() % 9 == 0) x = -kInfinity;
  }
  logits[random() % n] = 6.0f;
  return logits;
}

const std::vector<fd::SamplingOptions> kOptions{
    {.temperature = 0.8f, .typical_p = 0.5f},
    {.temperature = 1.0f, .top_k = 7, .typical_p = 0.9f},
    {.temperature = 1.3f, .top_n_sigma = 1.0f},
    {.temperature = 1.0f, .top_n_sigma = 0.0001f},
    {.temperature = 1.0f, .dynatemp_range = 0.7f},
    {.temperature = 0.5f, .top_p = 0.9f, .dynatemp_range = 0.5f, .dynatemp_exponent = 2.0f},
    {.temperature = 1.0f, .xtc_probability = 0.3f},
    {.temperature = 1.0f, .min_p = 0.01f, .xtc_probability = 1.0f, .xtc_threshold = 0.05f},
    {.temperature = 1.0f, .mirostat = 2},
    {.temperature = 2.0f, .mirostat = 2, .mirostat_tau = 0.01f},
    {.temperature = 0.7f, .top_k = 12, .top_p = 0.8f, .samplers = {kTopP, kTopK, kTemperature}},
    {.temperature = 0.7f,
     .min_p = 0.02f,
     .repeat_penalty = 1.4f,
     .dry_multiplier = 0.7f,
     .dry_allowed_length = 1,
     .xtc_probability = 0.5f,
     .samplers = {kXtc, kDry, kTemperature, kMinP, kPenalties}},
};

}  // namespace

TEST_CASE("p worked out step by step is what the definitions say") {
  std::mt19937 random(3);
  fd::Transforms reused;  // buffers of other rows and options must not show
  fd::Law law;
  for (const std::size_t n : {1u, 2u, 3u, 5u, 16u, 33u, 300u}) {
    for (const fd::SamplingOptions& options : kOptions) {
      for (const double bound : {0.5, 3.0, 1e9}) {
        fd::check(options);
        const std::vector<float> logits = random_logits(random, n);
        std::vector<fd::TokenId> text(12);
        for (fd::TokenId& token : text) token = static_cast<fd::TokenId>(random() % n);
        reused.apply(options, logits, {.tokens = text, .most_surprise = bound}, law);
        const std::vector<double> expected = law::p_of(logits, options, text, bound);
        double worst = 0;
        for (std::size_t id = 0; id < n; ++id) {
          worst = std::max(worst, std::abs(law(static_cast<fd::TokenId>(id)) - expected[id]));
        }
        CAPTURE(n, bound, &options - kOptions.data());
        CHECK(worst < 1e-13);
        CHECK(std::accumulate(law.p.begin(), law.p.end(), 0.0) == Approx(1.0).epsilon(1e-13));
        CHECK(std::is_sorted(law.ids.begin(), law.ids.end(), std::less_equal<>()));
        CHECK(std::all_of(law.p.begin(), law.p.end(), [](double p) { return p > 0; }));
      }
    }
  }
}

TEST_CASE("step by step and by short cuts p is the same") {
  std::mt19937 random(5);
  for (const fd::SamplingOptions& options : std::vector<fd::SamplingOptions>{
           {.temperature = 0.7f},
           {.temperature = 1.0f, .top_k = 5},
           {.temperature = 0.8f, .top_p = 0.7f},
           {.temperature = 1.3f, .min_p = 0.1f},
           {.temperature = 1.3f, .top_k = 9, .top_p = 0.8f, .min_p = 0.05f}}) {
    const std::vector<float> logits = random_logits(random, 200);
    fd::StepwiseLaw stepwise;
    fd::Law p;
    stepwise.apply(options, logits, {}, true, p);
    const fd::Law q = law_of(options, logits);
    CHECK(p.ids == q.ids);
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(p.p[i] == Approx(q.p[i]).epsilon(1e-12));
  }
}

TEST_CASE("typical-p keeps what is about as surprising as expected, not what is likeliest") {
  // Entropy 1.38 nats; surprises 0.69, 1.90 and 2.30: those of .15 are nearest, then that of .5.
  const std::vector<float> logits = logs({0.5, 0.15, 0.15, 0.1, 0.1});
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.1f}, logits).ids == Ids{1});
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.2f}, logits).ids == Ids{1, 2});
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.4f}, logits).ids == Ids{0, 1, 2});
  CHECK(law_of({.temperature = 1.0f, .typical_p = 0.9f}, logits).size() >= 4);
}

TEST_CASE("top-n-sigma keeps logits near the best, whatever the temperature") {
  // Mean 1, deviation sqrt(2): the bar is 4 - 2 sqrt(2) = 1.2 at 2 sigma.
  const std::vector<float> logits{3.0f, 1.0f, 1.0f, -1.0f};
  for (const float temperature : {0.5f, 1.0f, 4.0f}) {
    CHECK(law_of({.temperature = temperature, .top_n_sigma = 1.0f}, logits).ids == Ids{0});
    CHECK(law_of({.temperature = temperature, .top_n_sigma = 1.5f}, logits).ids == Ids{0, 1, 2});
  }
}

TEST_CASE("XTC drops all likely tokens but the last of them, with its probability") {
  const std::vector<float> logits = logs({0.4, 0.3, 0.2, 0.1});
  const fd::Law always =
      law_of({.temperature = 1.0f, .xtc_probability = 1.0f, .xtc_threshold = 0.15f}, logits);
  CHECK(always.ids == Ids{2, 3});
  const fd::Law mixed =
      law_of({.temperature = 1.0f, .xtc_probability = 0.25f, .xtc_threshold = 0.15f}, logits);
  CHECK(mixed(0) == Approx(0.75 * 0.4));
  CHECK(mixed(2) == Approx(0.75 * 0.2 + 0.25 * 2 / 3));
  // A single likely token is no choice to be dropped.
  const fd::SamplingOptions one{
      .temperature = 1.0f, .xtc_probability = 1.0f, .xtc_threshold = 0.35f};
  CHECK(law_of(one, logits).size() == 4);
}

TEST_CASE("dynamic temperature is low where the model is sure and high where it is not") {
  const auto best = [](float range, const std::vector<double>& p) {
    return law_of({.temperature = 1.0f, .dynatemp_range = range}, logs(p))(0);
  };
  CHECK(best(0.9f, {0.97, 0.01, 0.01, 0.01}) > 0.999);  // colder than 1
  CHECK(best(0.9f, {0.4, 0.3, 0.2, 0.1}) < 0.36);       // hotter
  CHECK(best(1.0f, {1.0, 1e-300, 1e-300}) == 1.0);      // as cold as can be
}

TEST_CASE("mirostat keeps what surprises no more than its bound, and always the best") {
  const std::vector<float> logits = logs({0.5, 0.25, 0.125, 0.125});
  const fd::SamplingOptions options{.temperature = 1.0f, .mirostat = 2};
  const auto kept = [&](double bits) {
    return law_of(options, logits, {.most_surprise = bits}).ids;
  };
  CHECK(kept(2.5) == Ids{0, 1});
  CHECK(kept(1.5) == Ids{0});
  CHECK(kept(0.1) == Ids{0});
  CHECK(kept(9.0).size() == 4);
}

TEST_CASE("a penalty that comes late sees the logits, with their sign") {
  // 2 and -2 at temperature 2 are 1 and -1, which the penalty makes 0.5 and -2.
  const std::vector<fd::TokenId> text{0, 1};
  const fd::SamplingOptions options{
      .temperature = 2.0f, .repeat_penalty = 2.0f, .samplers = {kTemperature, kPenalties}};
  const fd::Law p = law_of(options, {2.0f, -2.0f}, {text});
  CHECK(p(0) / p(1) == Approx(std::exp(2.5)));
}

TEST_CASE("another order is another law") {
  const std::vector<float> logits = logs({0.4, 0.3, 0.2, 0.1});
  fd::SamplingOptions options{.temperature = 5.0f, .top_p = 0.55f};
  CHECK(law_of(options, logits).size() == 3);  // heated first, flat
  options.samplers = {kTopP, kTemperature};
  CHECK(law_of(options, logits).size() == 2);
  // The order that is the default, written down, is no other one.
  options.samplers = {kPenalties, kTemperature, kTopP};
  CHECK_FALSE(options.reordered());
  CHECK(law_of(options, logits).size() == 3);
}
