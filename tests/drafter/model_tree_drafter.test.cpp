#include <foredraft/drafter/model_tree_drafter.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
using fd::testing::Tokens;

namespace {

using Tree = fd::ModelTreeDrafter<toy::Target, toy::TokenCache>;
static_assert(fd::Drafter<Tree>);
using How = fd::DraftSampling;

const Tokens kPrompt{3, 1, 4, 1, 5};

Tree drafter_of(toy::Target& model, const fd::ModelTreeSettings& settings, int capacity = 1024,
                int max_staged = 512) {
  return {model, toy::TokenCache{capacity, max_staged}, settings};
}

/// A draft of `settings` after kPrompt.
struct Drafted {
  Drafted(toy::Target& model, const fd::ModelTreeSettings& settings, fd::Limit limit, fd::Rng& rng,
          const fd::SamplingOptions& sampling = {.temperature = 1.0f}, bool uses_law = true) {
    Tree drafter = drafter_of(model, settings);
    tree.reset(kPrompt.back());
    drafter.propose({kPrompt, {}, sampling, uses_law, &rng}, limit, tree);
  }
  std::vector<fd::NodeIndex> parents() const {
    std::vector<fd::NodeIndex> parents;
    for (const fd::Node& node : tree.nodes()) parents.push_back(node.parent);
    return parents;
  }
  fd::DraftTree tree;
};

/// Parents of a tree by its definition: level by level, what exceeds the limit left out.
std::vector<fd::NodeIndex> shape_of(const std::vector<int>& branching, fd::Limit limit) {
  std::vector<fd::NodeIndex> parents{fd::kCommitted};
  std::vector<int> depth{0};
  for (std::size_t node = 0; node < parents.size(); ++node) {
    const int level = depth[node];
    if (level == limit.depth || level == static_cast<int>(branching.size())) continue;
    for (int i = 0; i < branching[fd::idx(level)]; ++i) {
      if (static_cast<int>(parents.size()) > std::min(limit.nodes, 63)) return parents;
      parents.push_back(static_cast<fd::NodeIndex>(node));
      depth.push_back(level + 1);
    }
  }
  return parents;
}

Tokens text_to(const fd::DraftTree& draft, fd::NodeIndex node) {
  return fd::testing::text_at({kPrompt, {}, {}, false, nullptr}, draft, node);
}

}  // namespace

TEST_CASE("the shape of a tree is fixed before anything is drawn") {
  toy::Target model(16, 0);
  for (const std::vector<int>& branching :
       {std::vector<int>{3, 2, 1, 1}, {1, 1, 1}, {2, 2, 2, 2, 2, 2, 2}, {63}, {16, 16}, {}}) {
    for (const fd::Limit limit :
         {fd::Limit{8, 63}, {8, 20}, {8, 5}, {8, 1}, {2, 63}, {1, 2}, {0, 0}, {3, 0}, {0, 3}}) {
      CAPTURE(branching, limit.depth, limit.nodes);
      const auto expected = shape_of(branching, limit);
      // Independent siblings may be more than q has tokens; the others may not.
      const bool narrow = !branching.empty() && branching[0] > 16;
      for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
        if (narrow && siblings == fd::Siblings::kWithoutReplacement) continue;
        for (const auto how : {How::kDrawn, How::kCoupled, How::kArgmax}) {
          if (narrow && how != How::kDrawn) continue;
          for (unsigned seed = 0; seed < 5; ++seed) {
            fd::Philox rng(seed);
            const Drafted drafted(
                model, {.branching = branching, .siblings = siblings, .sampling = how}, limit, rng);
            CHECK(drafted.parents() == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("a narrow q leaves places empty and moves no other node") {
  // q has two tokens. Each node of the first level has three places below it and fills two: places
  // 0, 1, 3 and 4 of the second level. The limit leaves three places on the third, those below
  // places 0, 1 and 2, of which the last stays empty: nodes 5 and 6 do not move up.
  toy::Target model(16, 0);
  for (unsigned seed = 0; seed < 20; ++seed) {
    fd::Philox rng(seed);
    const Drafted drafted(model, {.branching = {2, 3, 1}, .sampling = How::kDrawn},
                          {.depth = 8, .nodes = 2 + 6 + 3}, rng, {.temperature = 1.0f, .top_k = 2});
    CHECK(drafted.parents() == std::vector<fd::NodeIndex>{fd::kCommitted, 0, 0, 1, 1, 2, 2, 3, 4});
    const Drafted whole(model, {.branching = {2, 3, 1}, .sampling = How::kDrawn},
                        {.depth = 8, .nodes = 63}, rng, {.temperature = 1.0f, .top_k = 2});
    CHECK(whole.parents() ==
          std::vector<fd::NodeIndex>{fd::kCommitted, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("every node's q is the draft model's law after its path, penalties included") {
  toy::Target model(6, 0);
  for (const fd::SamplingOptions& law :
       {fd::SamplingOptions{.temperature = 1.0f},
        fd::SamplingOptions{.temperature = 0.7f, .top_k = 4},
        fd::SamplingOptions{.temperature = 1.0f, .repeat_penalty = 1.5f, .frequency_penalty = 0.5f},
        fd::SamplingOptions{.temperature = 1.0f, .presence_penalty = 1.0f, .penalty_last_n = 2}}) {
    for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
      fd::Philox rng(3);
      const Drafted drafted(
          model, {.branching = {3, 2, 1, 1}, .siblings = siblings, .sampling = How::kDrawn},
          {8, 63}, rng, law);
      CHECK(drafted.tree.drafted() == 21);
      for (fd::NodeIndex node = 0; node < drafted.tree.size(); ++node) {
        if (drafted.tree.first_child(node) < 0) continue;
        CHECK(drafted.tree.siblings(node) == siblings);
        const Tokens text = text_to(drafted.tree, node);
        const auto q = fd::testing::p_of(model.logits_after(text), law, text);
        for (std::size_t id = 0; id < q.size(); ++id) {
          CHECK(std::abs(drafted.tree.law(node)(static_cast<fd::TokenId>(id)) - q[id]) <= 1e-12);
        }
      }
    }
  }
}

// Following round by round, law_distance also refuses a key that two decisions share.
TEST_CASE("exact law: drafted trees under rejection sampling") {
  struct Case {
    int n_vocab;
    std::vector<int> branching;
    fd::Siblings siblings;
    How how;
  };
  const auto independent = fd::Siblings::kIndependent;
  const auto without = fd::Siblings::kWithoutReplacement;
  for (const auto& [n_vocab, branching, siblings, how] :
       {Case{3, {2}, independent, How::kDrawn}, Case{3, {2}, without, How::kDrawn},
        Case{3, {3}, without, How::kDrawn}, Case{3, {2}, without, How::kArgmax},
        Case{2, {2, 1}, independent, How::kDrawn}, Case{2, {2, 1}, without, How::kDrawn},
        Case{2, {1, 2}, without, How::kDrawn}, Case{2, {2, 2}, without, How::kArgmax}}) {
    for (const fd::SamplingOptions& sampling :
         {fd::SamplingOptions{.temperature = 1.0f},
          fd::SamplingOptions{.temperature = 1.3f, .top_k = 2},
          fd::SamplingOptions{
              .temperature = 0.8f, .repeat_penalty = 1.3f, .presence_penalty = 0.5f}}) {
      CAPTURE(n_vocab, branching, static_cast<int>(siblings), static_cast<int>(how),
              sampling.temperature, sampling.top_k);
      toy::Target target(n_vocab, 0, 1.5, 5);
      toy::Target model(n_vocab, 0, 1.5, 9);
      const Tree drafter = drafter_of(
          model, {.branching = branching, .siblings = siblings, .sampling = how}, 64, 16);
      const int depth = static_cast<int>(branching.size());
      CHECK(fd::testing::law_distance(target, drafter, fd::RejectionSampling{}, sampling, depth) <=
            1e-12);
    }
  }
}

namespace {

/// Drafts until a path is improbable. Notes how deep, by the text in front.
template <typename D>
struct Stopping : D {
  static constexpr bool controls = true;

  Stopping(D drafter, float below) : D(std::move(drafter)), stop_below(below) {}
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    limit.stop_below = stop_below;
    D::propose(context, limit, draft);
    (*depths)[Tokens(context.tokens.begin(), context.tokens.end())].insert(draft.max_depth());
  }

  float stop_below;
  std::shared_ptr<std::map<Tokens, std::set<int>>> depths =
      std::make_shared<std::map<Tokens, std::set<int>>>();
};

template <typename D>
void check_law_where_it_stops(const D& drafter, int n_vocab, int depth, float stop_below) {
  for (const float temperature : {1.0f, 0.7f}) {
    CAPTURE(n_vocab, depth, stop_below, temperature);
    toy::Target target(n_vocab, 0, 1.5, 5);
    const Stopping<D> stopping(drafter, stop_below);
    CHECK(fd::testing::law_distance(target, stopping, fd::RejectionSampling{},
                                    {.temperature = temperature}, depth) <= 1e-12);
    // Where it stopped did depend on what was drawn.
    CHECK(std::any_of(stopping.depths->begin(), stopping.depths->end(),
                      [](const auto& text) { return text.second.size() > 1; }));
  }
}

}  // namespace

TEST_CASE("exact law: drafts that end where a drawn path is improbable") {
  toy::Target two(2, 0, 1.5, 9);
  const fd::ModelDrafter<toy::Target, toy::TokenCache> chain(two, toy::TokenCache{64, 16},
                                                             {.sampling = How::kDrawn});
  for (const float stop_below : {0.3f, 0.5f}) {
    for (const int depth : {2, 3}) check_law_where_it_stops(chain, 2, depth, stop_below);
  }
  toy::Target three(3, 0, 1.5, 9);
  for (const auto siblings : {fd::Siblings::kIndependent, fd::Siblings::kWithoutReplacement}) {
    const Tree tree = drafter_of(
        three, {.branching = {2, 1}, .siblings = siblings, .sampling = How::kDrawn}, 64, 16);
    check_law_where_it_stops(tree, 3, 2, 0.5f);
  }
}

TEST_CASE("a tree ends with the level whose best path is improbable") {
  toy::Target model(16, 1, 2.0);
  for (const How how : {How::kDrawn, How::kArgmax}) {
    for (const std::vector<int>& branching : {std::vector<int>{3, 2, 1, 1, 1}, {1, 2, 2, 2}}) {
      const int deepest = static_cast<int>(branching.size());
      const auto propose = [&](float stop_below) {
        fd::Philox rng(3);
        return Drafted(model, {.branching = branching, .sampling = how},
                       {.depth = 8, .nodes = 63, .stop_below = stop_below}, rng)
            .tree;
      };
      const fd::DraftTree whole = propose(1e-30f);
      REQUIRE(whole.max_depth() == deepest);
      std::vector<float> best(fd::idx(deepest) + 1);  // path, by level
      for (fd::NodeIndex node = 0; node < whole.size(); ++node) {
        float path = 1;
        for (fd::NodeIndex i = node; i > 0; i = whole.parent(i)) path *= whole.confidence(i);
        float& most = best[fd::idx(whole.depth(node))];
        most = std::max(most, path);
      }
      std::set<int> depths;
      for (const float stop_below : {0.8f, 0.5f, 0.3f, 0.1f, 0.03f, 0.01f}) {
        CAPTURE(static_cast<int>(how), deepest, stop_below);
        int depth = 1;
        while (depth < deepest && best[fd::idx(depth)] >= stop_below) ++depth;
        depths.insert(depth);
        fd::DraftTree expected = whole;
        while (expected.max_depth() > depth) expected.truncate(expected.size() - 1);
        const fd::DraftTree draft = propose(stop_below);
        REQUIRE(draft.size() == expected.size());
        for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
          CHECK(draft.token(node) == expected.token(node));
          CHECK(draft.parent(node) == expected.parent(node));
        }
      }
      CHECK(depths.size() > 1);
    }
  }
}

TEST_CASE("a best-first tree has the likeliest tokens behind the likeliest paths, a pass a level") {
  toy::Target model(16, 1, 2.0);
  const fd::BestFirstSettings settings{
      .children = 3, .beam = 2, .min_probability = 0.0f, .max_nodes = 63};
  int passes = 0;
  model.before_forward = [&] { ++passes; };
  Tree drafter = drafter_of(model, {.best_first = settings});
  fd::DraftTree draft;
  fd::Philox rng(1);
  draft.reset(kPrompt.back());
  drafter.propose({kPrompt, {}, {}, false, &rng}, {.depth = 4, .nodes = 63}, draft);
  CHECK(passes == 4);
  CHECK(draft.drafted() == 3 + 6 + 6 + 6);

  std::vector<float> path(fd::idx(draft.size()), 1.0f);
  std::map<int, std::set<float>> followed, left;  // by depth: paths with children, and without
  for (fd::NodeIndex node = 0; node < draft.size(); ++node) {
    const Tokens text = text_to(draft, node);
    const auto law = fd::testing::p_of(model.logits_after(text), {.temperature = 1.0f}, text);
    std::vector<double> best = law;
    std::sort(best.rbegin(), best.rend());
    int rank = 0;
    for (auto child = draft.first_child(node); child >= 0; child = draft.next_child(node, child)) {
      CHECK(draft.confidence(child) == Approx(law[fd::idx(draft.token(child))]).epsilon(1e-5));
      CHECK(draft.confidence(child) == Approx(best[fd::idx(rank++)]).epsilon(1e-5));
      path[fd::idx(child)] = path[fd::idx(node)] * draft.confidence(child);
    }
    CHECK((rank == 0 || rank == 3));
    (rank > 0 ? followed : left)[draft.depth(node)].insert(path[fd::idx(node)]);
  }
  for (const int depth : {1, 2, 3}) {
    CHECK(followed[depth].size() == 2);
    CHECK(*followed[depth].begin() >= *left[depth].rbegin());
  }
}

TEST_CASE("a best-first tree that may follow one node with one child is the chain") {
  toy::Target model(16, 0);
  const auto propose = [&](const fd::ModelTreeSettings& settings) {
    fd::Philox rng(3);
    return Drafted(model, settings, {.depth = 6, .nodes = 63}, rng, {}, false).tree;
  };
  const auto narrow = fd::BestFirstSettings{.children = 1, .beam = 1, .min_probability = 0.0f};
  const fd::DraftTree tree = propose({.best_first = narrow});
  const fd::DraftTree chain = propose({.branching = {1, 1, 1, 1, 1, 1}});
  CHECK(tree.is_chain());
  REQUIRE(tree.size() == chain.size());
  CHECK(text_to(tree, tree.size() - 1) == text_to(chain, chain.size() - 1));
}

TEST_CASE("tokens are drawn in the planned shape, whatever follows what a model is sure of") {
  toy::Target model(16, 0);
  const std::vector<int> branching{2, 1, 1};
  const fd::Limit limit{.depth = 8, .nodes = 63};
  for (unsigned seed = 0; seed < 5; ++seed) {
    fd::Philox rng(seed);
    const Drafted drafted(
        model,
        {.branching = branching, .sampling = How::kDrawn, .best_first = fd::BestFirstSettings()},
        limit, rng);
    CHECK(drafted.parents() == shape_of(branching, limit));
  }
}

TEST_CASE("a best-first tree of coupled tokens holds the chain of coupled tokens, and siblings") {
  toy::Target model(16, 0);
  const fd::Limit limit{.depth = 3, .nodes = 63};
  const fd::BestFirstSettings all{
      .children = 3, .beam = 63, .min_probability = 0.0f, .max_nodes = 63};
  for (unsigned seed = 0; seed < 5; ++seed) {
    const auto propose = [&](fd::ModelTreeSettings settings) {
      fd::Philox rng(seed);
      settings.sampling = How::kCoupled;
      return Drafted(model, settings, limit, rng).tree;
    };
    const fd::DraftTree tree = propose({.best_first = all});
    const fd::DraftTree chain = propose({.branching = {1, 1, 1}});
    fd::NodeIndex node = 0;
    for (fd::NodeIndex link = 1; link < chain.size(); ++link) {
      int children = 0;
      for (auto i = tree.first_child(node); i >= 0; i = tree.next_child(node, i)) ++children;
      CHECK(children == 3);
      node = tree.first_child(node);
      CHECK(tree.token(node) == chain.token(link));
    }
    CHECK(tree.siblings(0) == fd::Siblings::kPointMass);
  }
}

// ---- the draft's cache --------------------------------------------------------------------------

namespace {

/// Asks for depths that follow a schedule, as a controller would, and holds the draft's cache to
/// the text.
struct Scheduled : Tree {
  static constexpr bool controls = true;

  Scheduled(Tree tree, std::vector<int> depths)
      : Tree(std::move(tree)), schedule(std::move(depths)) {}
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    const int depth = std::min(schedule[round++ % schedule.size()], limit.depth);
    Tree::propose(context, {depth, depth == 0 ? 0 : limit.nodes}, draft);
    check_rows(context.tokens);
  }
  void check_rows(std::span<const fd::TokenId> text) const {
    const auto rows = cache().tokens();
    if (rows.size() >= text.size() || !std::equal(rows.begin(), rows.end(), text.begin()))
      throw std::logic_error("a row of the draft's cache that is not final");
  }

  std::vector<int> schedule;
  std::size_t round = 0;
};

/// In every round a whole path of the draft was accepted, as it has to be where the draft model is
/// the target.
void check_never_wrong(const fd::Stats& stats) {
  CHECK(stats.drafted > 0);
  CHECK(stats.corrected == 0);
  CHECK(stats.accepted_per_position == stats.drafted_per_position);
}

const std::vector<std::vector<int>> kSchedules{{8}, {3, 0, 0, 3}, {0, 4, 1}, {0, 0, 0, 2}, {1}};

}  // namespace

// The cache of the draft after rejection, full acceptance and rounds without a draft: where one row
// is wrong or missing, the target as its own draft begins to err (mlxcel#994: a rewind by one row
// too many; vllm#9730: the bonus token missing; vllm-metal#716: no catch-up after depth 0).
TEST_CASE("the target as its own draft is never wrong with trees, whatever the depths") {
  toy::Target target(16, 0);  // rows depend on the whole text
  for (const std::vector<int>& schedule : kSchedules) {
    for (const std::vector<int>& branching : {std::vector<int>{3, 2, 1, 1}, {1, 3}, {2}}) {
      CAPTURE(schedule, branching);
      const auto run = [&](How how, fd::Siblings siblings, auto rule, float temperature) {
        Scheduled drafter(
            drafter_of(target, {.branching = branching, .siblings = siblings, .sampling = how}),
            schedule);
        fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), rule};
        check_never_wrong(decoder
                              .generate(kPrompt, {.max_tokens = 300,
                                                  .n_draft = 8,
                                                  .sampling = {.temperature = temperature},
                                                  .seed = 2})
                              .stats);
      };
      run(How::kAuto, fd::Siblings::kWithoutReplacement, fd::Greedy{}, 0.0f);
      run(How::kAuto, fd::Siblings::kWithoutReplacement, fd::SampleAndMatch{}, 1.0f);
      run(How::kDrawn, fd::Siblings::kWithoutReplacement, fd::RejectionSampling{}, 1.0f);
      run(How::kDrawn, fd::Siblings::kIndependent, fd::RejectionSampling{}, 1.0f);
    }
    for (const float temperature : {0.0f, 1.0f}) {
      CAPTURE(schedule, temperature);
      Scheduled drafter(drafter_of(target, {.best_first = fd::BestFirstSettings()}), schedule);
      fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::SampleAndMatch{}};
      const fd::Stats stats = decoder
                                  .generate(kPrompt, {.max_tokens = 300,
                                                      .n_draft = 8,
                                                      .sampling = {.temperature = temperature},
                                                      .seed = 2})
                                  .stats;
      CHECK(stats.drafted > 0);
      CHECK(stats.accepted_per_position[0] == stats.drafted_per_position[0]);
    }
  }
}

TEST_CASE("a thousand rounds at every depth, and rows that are final when drafts are often wrong") {
  toy::Target target(16, 0), other(16, 0, 3.0, 7);
  for (int depth = 1; depth <= 8; ++depth) {
    fd::Decoder decoder{target, toy::TokenCache{9500},
                        drafter_of(target, {.branching = std::vector<int>(8, 1)}, 9500),
                        fd::Greedy{}};
    const int tokens = depth == 8 ? 9000 : 100 * depth;
    check_never_wrong(decoder.generate(kPrompt, {.max_tokens = tokens, .n_draft = depth}).stats);
  }
  for (const auto siblings : {fd::Siblings::kWithoutReplacement, fd::Siblings::kIndependent}) {
    Scheduled drafter(drafter_of(other, {.siblings = siblings, .sampling = How::kDrawn}),
                      {8, 0, 3});
    fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::RejectionSampling{}};
    const auto stats =
        decoder
            .generate(kPrompt, {.max_tokens = 500, .n_draft = 8, .sampling = {.temperature = 1.0f}})
            .stats;
    CHECK(stats.accepted > 50);
    CHECK(stats.corrected > 50);
  }
}

// vllm#47926: a prompt that the target's cache holds already left the drafter without its context.
TEST_CASE("a prompt that is partly in the cache is drafted for as well as a cold one") {
  toy::Target target(16, 0);
  fd::Decoder decoder{target, toy::TokenCache{}, drafter_of(target, {}), fd::Greedy{}};
  const fd::Options options{.max_tokens = 60, .n_draft = 4};
  const auto cold = decoder.generate(kPrompt, options);
  const auto cached = decoder.generate(kPrompt, options);
  CHECK(cached.stats.reused_tokens > 0);
  CHECK(cached.tokens == cold.tokens);
  CHECK(cached.stats.accepted == cold.stats.accepted);
  check_never_wrong(cached.stats);
}

// ---- the text -----------------------------------------------------------------------------------

TEST_CASE("greedy text and a seed's text are the same with trees and without drafts") {
  toy::Target target(16, 0), similar(16, 0, 1.0), other(16, 0, 3.0, 7);
  for (toy::Target* model : {&target, &similar, &other}) {
    for (const std::vector<int>& branching :
         {std::vector<int>{3, 2, 1, 1}, {16}, {2, 2, 2, 2, 2}}) {
      for (const bool sampled : {false, true}) {
        const fd::Options options{.max_tokens = 120,
                                  .n_draft = 8,
                                  .sampling = {.temperature = sampled ? 1.0f : 0.0f},
                                  .seed = 3};
        fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
        fd::Decoder tree{target, toy::TokenCache{}, drafter_of(*model, {.branching = branching}),
                         fd::SampleAndMatch{}};
        fd::Decoder best{target, toy::TokenCache{},
                         drafter_of(*model, {.best_first = fd::BestFirstSettings()}),
                         fd::SampleAndMatch{}};
        const auto text = plain.generate(kPrompt, options).tokens;
        CHECK(tree.generate(kPrompt, options).tokens == text);
        CHECK(best.generate(kPrompt, options).tokens == text);
      }
    }
  }
}

TEST_CASE("more siblings are more often right, coupled, drawn or best") {
  toy::Target target(16, 1, 2.0, 1);
  // The draft is the target at another temperature.
  const fd::SamplingOptions hotter{.temperature = 1.6f};
  const auto rate = [&](std::vector<int> branching, How how, auto rule) {
    fd::Decoder decoder{
        target, toy::TokenCache{2048},
        drafter_of(target, {.branching = std::move(branching), .sampling = how, .law = hotter},
                   2048),
        rule};
    const auto stats =
        decoder
            .generate(
                kPrompt,
                {.max_tokens = 1500, .n_draft = 1, .sampling = {.temperature = 1.0f}, .seed = 9})
            .stats;
    return static_cast<double>(stats.accepted) / static_cast<double>(stats.drafted_per_position[0]);
  };
  CHECK(rate({3}, How::kCoupled, fd::SampleAndMatch{}) >
        rate({1}, How::kCoupled, fd::SampleAndMatch{}) + 0.1);
  CHECK(rate({3}, How::kDrawn, fd::RejectionSampling{}) >
        rate({1}, How::kDrawn, fd::RejectionSampling{}) + 0.05);
  CHECK(rate({3}, How::kArgmax, fd::RejectionSampling{}) >
        rate({1}, How::kArgmax, fd::RejectionSampling{}) + 0.1);
}

TEST_CASE("small caches of the draft model limit the tree and harm nothing") {
  toy::Target target(16, 0);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 60}).tokens;
  for (int capacity = 1; capacity < 40; ++capacity) {
    fd::Decoder decoder{target, toy::TokenCache{}, drafter_of(target, {}, capacity), fd::Greedy{}};
    CHECK(decoder.generate(kPrompt, {.max_tokens = 60, .n_draft = 5}).tokens == truth);
  }
  for (int max_staged = 1; max_staged < 24; ++max_staged) {
    fd::Decoder best{target, toy::TokenCache{},
                     drafter_of(target, {.best_first = fd::BestFirstSettings()}, 1024, max_staged),
                     fd::Greedy{}};
    CHECK(best.generate(kPrompt, {.max_tokens = 60, .n_draft = 5}).tokens == truth);
    fd::Decoder decoder{target, toy::TokenCache{}, drafter_of(target, {}, 1024, max_staged),
                        fd::Greedy{}};
    const auto result = decoder.generate(kPrompt, {.max_tokens = 60, .n_draft = 5});
    CHECK(result.tokens == truth);
    check_never_wrong(result.stats);
  }
}

TEST_CASE("a failing draft model fails the round and nothing else, in trees too") {
  toy::Target target(16, 0), model(16, 0);
  fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto truth = plain.generate(kPrompt, {.max_tokens = 40}).tokens;
  for (int k = 0; k < 20; ++k) {
    int passes = 0;
    model.before_forward = [&] {
      if (passes++ == k) throw std::runtime_error("device lost");
    };
    fd::Decoder decoder{target, toy::TokenCache{}, drafter_of(model, {}), fd::Greedy{}};
    std::vector<fd::TokenId> tokens;
    const auto keep = [&](const fd::Emitted& e) { tokens.push_back(e.token); };
    CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 40, .n_draft = 4}, keep),
                    std::runtime_error);
    const int left = 40 - static_cast<int>(tokens.size());
    check_never_wrong(decoder.resume({.max_tokens = left, .n_draft = 4}, keep).stats);
    CHECK(tokens == truth);
  }
}

TEST_CASE("settings that cannot be are refused") {
  toy::Target model(16);
  CHECK_THROWS_AS(drafter_of(model, {.branching = {2, 0}}), fd::Error);
  CHECK_THROWS_AS(drafter_of(model, {.branching = {64}}), fd::Error);
  const fd::BestFirstSettings nobody{.beam = 0};
  CHECK_THROWS_AS(drafter_of(model, {.best_first = nobody}), fd::Error);
  CHECK_THROWS_AS(drafter_of(model, {.siblings = fd::Siblings::kPointMass}), fd::Error);
  CHECK(drafter_of(model, {}).max_depth() == 4);
  CHECK(drafter_of(model, {}, 64, 3).max_depth() == 3);
  toy::Target larger(17);
  const auto build = [&] {
    fd::Decoder decoder{larger, toy::TokenCache{}, drafter_of(model, {}), fd::Greedy{}};
  };
  CHECK_THROWS_AS(build(), fd::Error);
}
