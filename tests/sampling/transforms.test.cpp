#include <foredraft/sampling/transforms.hpp>

#include <limits>
#include <numeric>
#include <random>

#include "support/catch.hpp"
#include "support/exact_law.hpp"
#include "support/runs.hpp"

namespace fd = foredraft;

namespace {

using Ids = std::vector<fd::TokenId>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

fd::Law transformed(const fd::SamplingOptions& options, const std::vector<float>& logits) {
  fd::Transforms transforms;
  fd::Law p;
  transforms.apply(options, logits, {}, p);
  return p;
}

/// Largest difference from the plain definition, over all tokens.
double error(const fd::Law& p, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t id = 0; id < expected.size(); ++id) {
    worst = std::max(worst, std::abs(p(static_cast<fd::TokenId>(id)) - expected[id]));
  }
  return worst;
}

/// Logits with ties, impossible tokens and, now and then, one token far ahead.
std::vector<float> random_logits(std::mt19937& random, std::size_t n) {
  std::vector<float> logits(n);
  for (float& x : logits) {
    x = static_cast<float>(random() % 2000) / 200.0f - 5.0f;
    if (random() % 5 == 0) x = 1.0f;
    if (random() % 9 == 0) x = -kInfinity;
  }
  logits[random() % n] = random() % 3 == 0 ? 60.0f : 2.0f;
  return logits;
}

const std::vector<fd::SamplingOptions> kOptions{
    {},
    {.temperature = 1.0f},
    {.temperature = 1e-8f},
    {.temperature = 5.0f},
    {.temperature = 1.0f, .top_k = 1},
    {.temperature = 1.0f, .top_k = 5},
    {.temperature = 0.8f, .top_p = 0.5f},
    {.temperature = 1.0f, .top_p = 1e-6f},
    {.temperature = 5.0f, .top_p = 0.98f},  // keeps hundreds of tokens of the largest rows
    {.temperature = 1.0f, .min_p = 0.1f},
    {.temperature = 1.0f, .min_p = 1.0f},
    {.temperature = 1.3f, .top_k = 12, .top_p = 0.9f, .min_p = 0.02f},
};

}  // namespace

TEST_CASE("p is what the definitions say, for sizes around every SIMD width") {
  std::mt19937 random(3);
  fd::Transforms reused;  // buffers of other rows and options must not show
  fd::Law law;
  for (const std::size_t n : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 64u, 65u,
                              128u, 129u, 700u, 3000u}) {
    for (const fd::SamplingOptions& options : kOptions) {
      const std::vector<float> logits = random_logits(random, n);
      reused.apply(options, logits, {}, law);
      CAPTURE(n, options.temperature, options.top_k, options.top_p, options.min_p);
      CHECK(error(law, law::p_of(logits, options)) < 1e-13);
      CHECK(std::accumulate(law.p.begin(), law.p.end(), 0.0) == Approx(1.0).epsilon(1e-13));
      CHECK(std::is_sorted(law.ids.begin(), law.ids.end(), std::less_equal<>()));
      CHECK(std::all_of(law.p.begin(), law.p.end(), [](double p) { return p > 0; }));
    }
  }
}

TEST_CASE("p is the same with and without what is known of runs") {
  std::mt19937 random(4);
  fd::Transforms transforms;
  for (const std::size_t n : {1u, 127u, 128u, 129u, 500u, 3000u}) {
    for (const fd::SamplingOptions& options : kOptions) {
      const std::vector<float> logits = random_logits(random, n);
      fd::Law without;
      transforms.apply(options, logits, {}, without);
      const RunsOf row(logits, options.temperature);
      const RunsOf hotter(logits, options.temperature + 0.25f);  // whose sums are of no use
      for (const fd::Runs& runs : {row.maxima(), row.all(), hotter.all()}) {
        fd::Law with;
        transforms.apply(options, logits, {}, with, runs);
        CHECK(with.ids == without.ids);
        CHECK(with.p == without.p);
      }
    }
  }
  // They are those of the row before penalties, which are of no use after them.
  const std::vector<float> logits{5.0f, 1.0f, 0.0f};
  fd::SamplingOptions options{.temperature = 1.0f, .min_p = 0.5f};
  options.presence_penalty = 10.0f;
  const std::vector<fd::TokenId> history{0};
  fd::Law p;
  transforms.apply(options, logits, {history}, p, RunsOf(logits, 1.0f).all());
  CHECK(p.ids == std::vector<fd::TokenId>{1});
}

TEST_CASE("the sums that come with a row are what top-p goes by") {
  // Twice as much mass is promised as there is, so half of it is not found among the likeliest.
  const std::vector<float> logits{3.0f, 2.0f, 1.0f, 0.0f};
  const float maximum = 3.0f;
  const double sum = 2 * fd::sum_of_weights(logits, maximum, 1.0);
  fd::Transforms transforms;
  fd::Law p;
  const fd::SamplingOptions options{.temperature = 1.0f, .top_p = 0.4f};
  transforms.apply(options, logits, {}, p);
  CHECK(p.size() == 1);
  transforms.apply(options, logits, {}, p, {{&maximum, 1}, {&sum, 1}, 1.0f});
  CHECK(p.size() == 2);
}

TEST_CASE("sums that promise more than there is leave all tokens to top-p") {
  // An engine that adds up floats may be off by 1e-7, which is more than a top-p close to 1 drops.
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(5000);
  for (float& x : logits) x = normal(random);
  const RunsOf honest(logits, 1.0f);
  for (const double factor : {1 + 2e-7, 2.0}) {
    std::vector<double> sums(honest.all().sums.begin(), honest.all().sums.end());
    for (double& sum : sums) sum *= factor;
    fd::Transforms transforms;
    fd::Law p;
    transforms.apply({.temperature = 1.0f, .top_p = std::nextafter(1.0f, 0.0f)}, logits, {}, p,
                     {honest.all().maxima, sums, 1.0f});
    CHECK(p.size() == logits.size());
    CHECK(fd::sum(p.p) == Approx(1.0));
  }
}

TEST_CASE("top-p keeps no token more where the likeliest reach it exactly") {
  // 1024 tokens of weight 1 are half of what the sums say there is; another hundred weigh little.
  std::vector<float> logits(1124, 0.0f);
  std::fill(logits.begin() + 1024, logits.end(), -5.0f);
  std::vector<float> maxima(9, 0.0f);
  std::vector<double> sums(9, 256.0);
  maxima[8] = -5.0f;
  sums[8] = 0.0;
  fd::Transforms transforms;
  fd::Law p;
  transforms.apply({.temperature = 1.0f, .top_p = 0.5f}, logits, {}, p,
                   {.maxima = maxima, .sums = sums, .temperature = 1.0f});
  CHECK(p.size() == 1024);
}

TEST_CASE("the ids of one row do not show in the next, even where there are as many") {
  fd::Transforms transforms;
  fd::Law p;
  transforms.apply({.temperature = 1.0f, .top_k = 3}, std::vector<float>{0, 0, 5, 0, 0, 5, 0, 5},
                   {}, p);
  CHECK(p.ids == Ids{2, 5, 7});
  for (int times = 0; times < 2; ++times) {  // the buffers take turns
    transforms.apply({.temperature = 1.0f}, std::vector<float>{1, 2, 3}, {}, p);
    CHECK(p.ids == Ids{0, 1, 2});
  }
}

TEST_CASE("top-k of long rows, wherever the likeliest tokens stand") {
  std::mt19937 random(8);
  const float impossible = -std::numeric_limits<float>::infinity();
  for (const std::size_t n : {10'239u, 12'345u, 33'000u}) {
    for (const int k : {1, 2, 4, 5, 6, 12, 20}) {
      CAPTURE(n, k);
      const fd::SamplingOptions options{.temperature = 1.0f, .top_k = k};
      std::vector<float> logits = random_logits(random, n);
      CHECK(error(transformed(options, logits), law::p_of(logits, options)) < 1e-13);
      // All of them in two runs, the last one among these.
      for (int i = 0; i < k; ++i) logits[i % 2 == 0 ? n - 1 - fd::idx(i) : fd::idx(i)] += 50.0f;
      CHECK(error(transformed(options, logits), law::p_of(logits, options)) < 1e-13);
      // Fewer than k are possible.
      for (std::size_t i = 0; i < n; ++i)
        if (i % 4001 != 7) logits[i] = impossible;
      CHECK(error(transformed(options, logits), law::p_of(logits, options)) < 1e-13);
    }
  }
}

TEST_CASE("top-p of flat and of steep rows, near its ends") {
  std::mt19937 random(5);
  for (const float spread : {0.0f, 1e-6f, 0.01f, 1.0f, 30.0f, 2000.0f}) {
    std::vector<float> logits(2000);
    for (float& x : logits) x = static_cast<float>(random() % 1000) * 1e-3f * spread;
    for (const float top_p : {1e-7f, 0.001f, 0.3f, 0.5f, 0.95f, 0.999999f}) {
      CAPTURE(spread, top_p);
      const fd::SamplingOptions options{.temperature = 1.0f, .top_p = top_p};
      CHECK(error(transformed(options, logits), law::p_of(logits, options)) < 1e-13);
    }
  }
}

TEST_CASE("a tiny temperature and top-k 1 pick the best token, without overflow") {
  const std::vector<float> logits{-3e38f, 2.0f, 3e38f, 2.0f};
  CHECK(transformed({.temperature = 1e-8f}, logits).ids == std::vector<fd::TokenId>{2});
  CHECK(transformed({.temperature = std::numeric_limits<float>::denorm_min()}, logits).ids ==
        std::vector<fd::TokenId>{2});
  CHECK(transformed({.temperature = 5.0f, .top_k = 1}, logits).ids == std::vector<fd::TokenId>{2});
  CHECK(transformed({}, logits).ids == std::vector<fd::TokenId>{2});
}

TEST_CASE("an enormous temperature leaves all that is possible") {
  const std::vector<float> logits{3.0f, -kInfinity, -3e38f, 0.0f};
  CHECK(transformed({.temperature = 3e38f, .min_p = 0.1f}, logits).ids == Ids{0, 2, 3});
  CHECK(transformed({.temperature = 3e38f, .top_p = 0.99f}, logits).ids == Ids{0, 2, 3});
}

TEST_CASE("transforms: ties go to the lower id") {
  const std::vector<float> logits{0.0f, 1.0f, 1.0f, 1.0f, 0.0f};
  CHECK(transformed({}, logits).ids == Ids{1});
  CHECK(transformed({.temperature = 1.0f, .top_k = 2}, logits).ids == Ids{1, 2});
  CHECK(transformed({.temperature = 1.0f, .top_k = 4}, logits).ids == Ids{0, 1, 2, 3});
  CHECK(transformed({.temperature = 1.0f, .top_p = 0.4f}, logits).ids == Ids{1, 2});
  CHECK(transformed({.temperature = 1.0f, .min_p = 1.0f}, logits).ids == Ids{1, 2, 3});
}

TEST_CASE("min-p keeps a token at its border, whatever it drops beside it") {
  CHECK(transformed({.temperature = 1.0f, .min_p = 1.0f}, {2.0f, 1.9999f, 2.0f}).ids == Ids{0, 2});
  CHECK(transformed({.temperature = 1.0f, .top_k = 3, .min_p = 1.0f}, {2, 1, 2, 0}).ids ==
        Ids{0, 2});
}

TEST_CASE("each transform sees the law that the one before left") {
  // Probabilities .4 .3 .2 .1: top-p .7 keeps two of them, but after top-k 2 it is .57 and .43.
  const std::vector<float> logits{std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  CHECK(transformed({.temperature = 1.0f, .top_p = 0.55f}, logits).size() == 2);
  CHECK(transformed({.temperature = 1.0f, .top_k = 2, .top_p = 0.55f}, logits).size() == 1);
  // The temperature comes first: at 4 the law is flat, and min-p 0.6 keeps all.
  CHECK(transformed({.temperature = 1.0f, .min_p = 0.6f}, logits).size() == 2);
  CHECK(transformed({.temperature = 4.0f, .min_p = 0.6f}, logits).size() == 4);
}

TEST_CASE("a token that the row forbids never comes back") {
  const std::vector<float> logits{-kInfinity, 1.0f, -kInfinity, 0.0f};
  for (const fd::SamplingOptions& options : kOptions) {
    const fd::Law p = transformed(options, logits);
    CHECK(p(0) == 0.0);
    CHECK(p(2) == 0.0);
    CHECK(p(1) > 0.0);
  }
}

TEST_CASE("rows that are no logits are refused") {
  const float nan = std::nanf("");
  for (const std::vector<float>& row : std::vector<std::vector<float>>{{nan, 1.0f},
                                                                       {1.0f, nan},
                                                                       {kInfinity, 1.0f},
                                                                       {-kInfinity, -kInfinity},
                                                                       {kInfinity, nan},
                                                                       {}}) {
    for (const fd::SamplingOptions& options : kOptions) {
      fd::Transforms transforms;
      fd::Law p;
      try {
        transforms.apply(options, row, {}, p);
        FAIL("no error");
      } catch (const fd::Error& error) {
        CHECK(error.code() == fd::ErrorCode::kInvalidLogits);
      }
      // A target hands over no maxima of a row with NaN, but it may of the others.
      if (row.empty() || std::any_of(row.begin(), row.end(), [](float x) { return x != x; }))
        continue;
      const std::vector<float> maxima{*std::max_element(row.begin(), row.end())};
      const fd::Runs runs{.maxima = maxima};
      fd::TemperedRow lazy;
      CHECK_THROWS_AS(transforms.apply(options, row, {}, p, runs), fd::Error);
      CHECK_THROWS_AS(transforms.apply_lazily({.temperature = 1.0f}, row, {}, lazy, runs),
                      fd::Error);
    }
  }
}

namespace {

fd::Law penalised(const fd::SamplingOptions& options, const std::vector<fd::TokenId>& history) {
  fd::Transforms transforms;
  fd::Law p;
  transforms.apply(options, std::vector<float>{2.0f, 1.0f, -1.0f, 1.5f}, {history}, p);
  return p;
}

}  // namespace

TEST_CASE("penalties change what is best, each in its own way") {
  CHECK(penalised({}, {0}).ids == Ids{0});
  CHECK(penalised({.repeat_penalty = 2.0f}, {0}).ids == Ids{3});
  CHECK(penalised({.presence_penalty = 0.6f}, {0}).ids == Ids{3});
  CHECK(penalised({.presence_penalty = 0.3f}, {0, 0, 0}).ids == Ids{0});   // once, however often
  CHECK(penalised({.frequency_penalty = 0.3f}, {0, 0, 0}).ids == Ids{3});  // each time
  CHECK(penalised({.presence_penalty = -3.5f}, {2}).ids == Ids{2});        // below 0 it attracts
}

TEST_CASE("penalties look back as far as they are told") {
  fd::SamplingOptions options{.presence_penalty = 5.0f, .penalty_last_n = 2};
  CHECK(penalised(options, {0, 1, 2}).ids == Ids{0});
  options.penalty_last_n = 3;
  CHECK(penalised(options, {0, 1, 2}).ids == Ids{3});
  options.penalty_last_n = -1;
  CHECK(penalised(options, {0, 1, 2}).ids == Ids{3});
}

TEST_CASE("penalised rows equal the definition, with every other transform") {
  std::mt19937 random(11);
  for (fd::SamplingOptions options : kOptions) {
    for (const auto& [repeat, presence, frequency] :
         {std::array{1.3f, 0.0f, 0.0f}, std::array{1.0f, 0.7f, 0.0f},
          std::array{0.7f, -0.4f, 0.2f}}) {
      options.repeat_penalty = repeat;
      options.presence_penalty = presence;
      options.frequency_penalty = frequency;
      for (const int last_n : {1, 5, -1}) {
        options.penalty_last_n = last_n;
        const std::vector<float> logits = random_logits(random, 40);
        std::vector<fd::TokenId> history(8);
        for (fd::TokenId& token : history) token = static_cast<fd::TokenId>(random() % 40);
        fd::Transforms transforms;
        fd::Law p;
        transforms.apply(options, logits, {history}, p);
        CHECK(error(p, law::p_of(logits, options, history)) < 1e-12);
      }
    }
  }
}

TEST_CASE("ids that the row does not have penalise nothing") {
  CHECK(penalised({.presence_penalty = 5.0f}, {-1, 4, 99}).ids == Ids{0});
}

TEST_CASE("equal logits have equal weights wherever they stand in the row") {
  std::mt19937 random(6);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t n = 3 + random() % 30;
    std::vector<float> logits(n);
    for (float& x : logits) x = static_cast<float>(random() % 1000) / 100.0f;
    const std::size_t a = random() % (n - 1);
    logits[n - 1] = logits[a];
    const fd::Law p = transformed({.temperature = 0.7f}, logits);
    CHECK(p.p[a] == p.p[n - 1]);
  }
}
