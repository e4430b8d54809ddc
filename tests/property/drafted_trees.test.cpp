// Trees drafted by a model, through the real kernels: the text is the plain one, and the rows that
// a draft model keeps after each round are those of a fresh forward pass, to the bit.

#include <foredraft/models.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Cache = fd::HybridCache<fd::f16>;
const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
const std::vector<std::vector<int>> kBranchings{{3, 2, 1, 1}, {1, 1, 1, 1}, {2, 3}};

/// What a cache holds after the first `n` of `tokens` were forwarded in one pass of a chain.
Cache::Snapshot forwarded(fd::Model<fd::Cpu>& model, std::vector<fd::TokenId> tokens, int n) {
  tokens.resize(fd::idx(n));
  Cache cache(model.shape(), 0, n);
  fd::Scores scores;
  cache.stage(fd::chain_of(tokens, 0, n));
  fd::forward_one(model, fd::Request<Cache>{&cache, 0, n, {fd::RowNeed::kNothing, {}}, &scores});
  cache.commit(fd::first_nodes(n));
  return cache.snapshot();
}

template <typename D, typename A>
fd::Result run(TinyPair& models, fd::Model<fd::Cpu>& draft, D drafter, A rule,
               const fd::Options& options) {
  fd::Decoder decoder{models.target, Cache{models.target.shape()}, std::move(drafter), rule};
  fd::Result result = decoder.generate(kPrompt, options);
  if constexpr (requires { decoder.drafter().cache(); }) {
    const Cache& cache = decoder.drafter().cache();
    CHECK(cache.size() > static_cast<int>(kPrompt.size()));
    const auto held = cache.snapshot();
    const auto fresh =
        forwarded(draft, {decoder.tokens().begin(), decoder.tokens().end()}, cache.size());
    const auto same = [](const auto& a, const auto& b) {
      return a->n == b->n && a->k == b->k && a->v == b->v;
    };
    CHECK(
        std::equal(held.rows.begin(), held.rows.end(), fresh.rows.begin(), fresh.rows.end(), same));
  }
  return result;
}

}  // namespace

TEST_CASE("text equal, draft's rows equal: trees of a model that is often wrong") {
  TinyPair models;
  const fd::Options greedy{.max_tokens = 200, .n_draft = 4, .ignore_end = true};
  const fd::Options sampled{.max_tokens = 200,
                            .n_draft = 4,
                            .sampling = {.temperature = 1.0f},
                            .seed = 6,
                            .ignore_end = true};
  const auto truth = run(models, models.draft, fd::NoDraft{}, fd::Greedy{}, greedy).tokens;
  const auto text = run(models, models.draft, fd::NoDraft{}, fd::SampleAndMatch{}, sampled).tokens;
  for (const std::vector<int>& branching : kBranchings) {
    const auto tree = [&](fd::ModelTreeSettings settings = {}) {
      settings.branching = branching;
      return fd::ModelTreeDrafter{models.draft, settings};
    };
    CHECK(run(models, models.draft, tree(), fd::Greedy{}, greedy).tokens == truth);
    CHECK(run(models, models.draft, tree(), fd::SampleAndMatch{}, sampled).tokens == text);
    for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
      const auto result =
          run(models, models.draft, tree({.siblings = siblings}), fd::RejectionSampling{}, sampled);
      CHECK(result.stats.accepted > 0);
      CHECK(result.stats.corrected > 0);
    }
  }
}

TEST_CASE("a model as its own draft is never wrong, with chains and trees") {
  TinyModel tiny;
  tiny.family = "qwen2";
  TinyPair models{tiny};
  for (const std::vector<int>& branching : kBranchings) {
    for (const float temperature : {0.0f, 1.0f}) {
      const fd::Options options{.max_tokens = 300,
                                .n_draft = 4,
                                .sampling = {.temperature = temperature},
                                .seed = 1,
                                .ignore_end = true};
      const fd::ModelTreeSettings settings{.branching = branching,
                                           .sampling = fd::DraftSampling::kDrawn};
      const auto result = run(models, models.target, fd::ModelTreeDrafter{models.target, settings},
                              fd::RejectionSampling{}, options);
      CHECK(result.stats.corrected == 0);
      CHECK(result.stats.accepted_per_position == result.stats.drafted_per_position);
    }
  }
}
