#include <foredraft/testing/exact_law.hpp>

#include <cmath>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

TEST_CASE("p by definition equals p as it is shipped, under every transform") {
  const std::vector<float> logits{0.3f, -1.0f, 2.0f, 2.0f, 0.0f};
  const ft::Tokens text{2, 0, 2, 4};
  fd::Transforms transforms;
  for (const fd::SamplingOptions& options :
       {fd::SamplingOptions{}, fd::SamplingOptions{.temperature = 0.7f, .top_k = 3},
        fd::SamplingOptions{.temperature = 1.0f, .top_p = 0.6f},
        fd::SamplingOptions{.temperature = 1.0f, .min_p = 0.2f},
        fd::SamplingOptions{.repeat_penalty = 3.0f},
        fd::SamplingOptions{.temperature = 1.0f, .presence_penalty = 1.0f, .penalty_last_n = 2},
        fd::SamplingOptions{
            .temperature = 1.0f, .frequency_penalty = 0.5f, .penalty_last_n = -1}}) {
    fd::Law shipped;
    transforms.apply(options, logits, {text}, shipped);
    const std::vector<double> p = ft::p_of(logits, options, text);
    for (std::size_t id = 0; id < p.size(); ++id) {
      CHECK(shipped(static_cast<fd::TokenId>(id)) == Approx(p[id]).margin(1e-14));
    }
  }
}

TEST_CASE("the law of a text multiplies along it") {
  const ft::HashTarget target(2, 1, 1.0, 3);
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  const auto law = ft::target_law(target, {0}, sampling, 2);
  CHECK(law.size() == 4);
  const auto first = ft::p_of(target.logits_after(ft::Tokens{0}), sampling);
  const auto second = ft::p_of(target.logits_after(ft::Tokens{1}), sampling);
  CHECK(law.at({1, 0}) == Approx(first[1] * second[0]));
}

TEST_CASE("total variation is half the sum of differences") {
  CHECK(ft::total_variation({{{0}, 0.5}, {{1}, 0.5}}, {{{0}, 0.5}, {{1}, 0.5}}) == 0.0);
  CHECK(ft::total_variation({{{0}, 1.0}}, {{{1}, 1.0}}) == 1.0);
  CHECK(ft::total_variation({{{0}, 0.75}, {{1}, 0.25}}, {{{0}, 0.5}, {{2}, 0.5}}) == 0.5);
}

TEST_CASE("a program's law is that of its draws") {
  const auto law = ft::law_of([](fd::Rng& rng) {
    const bool heads = rng.bernoulli({fd::Purpose::kAccept, 0, 1}, 0.25);
    return ft::Tokens{heads ? 1 : 0};
  });
  CHECK(law.at({1}) == 0.25);
  CHECK(law.at({0}) == 0.75);
}
