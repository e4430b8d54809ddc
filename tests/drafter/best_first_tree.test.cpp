#include <foredraft/drafter/best_first_tree.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

using Path = std::vector<fd::TokenId>;

/// A draft model whose children of each path are given, the best first.
struct Model {
  std::map<Path, std::vector<std::pair<fd::TokenId, float>>> children;
  std::vector<Path> seen = {};  // paths whose rows it computed
  int passes = 0;

  static Path path_to(const fd::DraftTree& draft, fd::NodeIndex node) {
    Path path;
    for (; node > 0; node = draft.parent(node)) path.push_back(draft.token(node));
    std::reverse(path.begin(), path.end());
    return path;
  }

  fd::DraftTree draft(const fd::BestFirstSettings& settings, int depth, int nodes = 63,
                      int rows = 64, float stop_below = 0) {
    fd::DraftTree draft;
    draft.reset(99);
    fd::BestFirstTree tree;
    tree.begin(draft, settings, {.depth = depth, .nodes = nodes, .stop_below = stop_below}, rows);
    while (tree.open()) {
      ++passes;
      tree.grow(draft, [&](fd::NodeIndex node, fd::NodeIndex row, int count, fd::DraftTree& to) {
        const Path path = path_to(to, node);
        CHECK(path == path_to(tree.followed(), row));
        seen.push_back(path);
        const auto found = children.find(path);
        if (found == children.end()) return;
        for (const auto& [token, probability] : found->second) {
          if (count-- == 0) break;
          to.set_confidence(to.add(node, token), probability);
        }
      });
    }
    return draft;
  }
};

std::set<Path> paths(const fd::DraftTree& draft) {
  std::set<Path> all;
  for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
    all.insert(Model::path_to(draft, node));
  }
  return all;
}

/// Sure behind 1, not so behind 2 and 3.
const Model kModel{{{{}, {{1, 0.6f}, {2, 0.3f}, {3, 0.06f}}},
                    {{1}, {{4, 0.9f}, {5, 0.05f}}},
                    {{2}, {{6, 0.5f}, {7, 0.4f}}},
                    {{1, 4}, {{8, 0.9f}, {9, 0.1f}}}}};

}  // namespace

TEST_CASE("a tree is wide where its model is unsure, and a chain where it is sure") {
  Model model = kModel;
  const auto draft = model.draft({.children = 3, .beam = 2, .min_probability = 0.04f}, 3);
  // {1, 5} has .03, and {2, 7} is behind a node that was followed.
  CHECK(paths(draft) ==
        std::set<Path>{{1}, {2}, {3}, {1, 4}, {2, 6}, {2, 7}, {1, 4, 8}, {1, 4, 9}});
  CHECK(model.seen == std::vector<Path>{{}, {1}, {2}, {1, 4}, {2, 6}});
  CHECK(model.passes == 3);

  Model sure{{{{}, {{1, 0.99f}, {2, 0.01f}}}, {{1}, {{3, 0.99f}, {4, 0.01f}}}}};
  CHECK(sure.draft({}, 8).is_chain());
}

TEST_CASE("one child and a beam of one are the chain of best tokens") {
  Model model = kModel;
  const auto draft = model.draft({.children = 1, .beam = 1}, 3);
  CHECK(paths(draft) == std::set<Path>{{1}, {1, 4}, {1, 4, 8}});
}

TEST_CASE("of more nodes than may be verified the likeliest are kept, and they are a tree") {
  for (int nodes = 1; nodes <= 8; ++nodes) {
    CAPTURE(nodes);
    Model model = kModel;
    const auto draft = model.draft({.children = 3, .beam = 2, .min_probability = 0.04f}, 3, nodes);
    CHECK(draft.drafted() == nodes);
    const std::vector<Path> best{{1}, {1, 4}, {1, 4, 8}, {2}, {2, 6}, {2, 7}, {3}, {1, 4, 9}};
    CHECK(paths(draft) == std::set<Path>(best.begin(), best.begin() + nodes));
  }
}

TEST_CASE("limits of depth, of rows, and of what a level is worth hold") {
  const fd::BestFirstSettings settings{.children = 3, .beam = 2, .min_probability = 0.04f};
  Model shallow = kModel;
  CHECK(shallow.draft(settings, 1).max_depth() == 1);
  CHECK(shallow.passes == 1);
  Model none = kModel;
  CHECK(none.draft(settings, 0).drafted() == 0);
  CHECK(none.draft(settings, 3, 0).drafted() == 0);
  CHECK(none.passes == 0);
  Model narrow = kModel;
  (void)narrow.draft(settings, 3, 63, 2);
  CHECK(narrow.seen == std::vector<Path>{{}, {1}});
  // The second level is reached by .9 of probability, the third by .54 + .15.
  Model dear = kModel;
  (void)dear.draft(settings, 3, 63, 64, 0.8f);
  CHECK(dear.passes == 2);
}

TEST_CASE("what is not worth a row is neither drafted nor followed, but for the first token") {
  const fd::BestFirstSettings settings{.children = 3, .beam = 2, .min_probability = 0.04f};
  fd::DraftTree draft;
  for (const auto& [prune, expected] :
       {std::pair(0.35f, std::set<Path>{{1}, {1, 4}, {1, 4, 8}}), {2.0f, std::set<Path>{{1}}}}) {
    Model model = kModel;
    draft.reset(99);
    fd::BestFirstTree tree;
    tree.begin(draft, settings, {.depth = 3, .nodes = 63, .prune_below = prune}, 64);
    while (tree.open()) {
      tree.grow(draft, [&](fd::NodeIndex node, fd::NodeIndex, int, fd::DraftTree& to) {
        for (const auto& [token, p] : model.children[Model::path_to(to, node)]) {
          to.set_confidence(to.add(node, token), p);
        }
      });
    }
    CHECK(paths(draft) == expected);
  }
}

TEST_CASE("a first token that is hardly likely is drafted all the same, but not followed") {
  Model unsure{{{{}, {{1, 0.02f}, {2, 0.01f}}}, {{1}, {{3, 0.9f}}}}};
  CHECK(paths(unsure.draft({}, 4)) == std::set<Path>{{1}});
  CHECK(unsure.passes == 1);
}

TEST_CASE("a full tree stays a tree") {
  struct Endless : Model {
    Endless() {
      children[{}] = {{1, 0.4f}, {2, 0.3f}, {3, 0.3f}};
      for (int level = 0; level < 6; ++level) {
        const auto known = children;
        for (const auto& [path, next] : known) {
          for (const auto& [token, p] : next) {
            Path longer = path;
            longer.push_back(token);
            children.try_emplace(longer, children[{}]);
          }
        }
        if (children.size() > 3000) break;
      }
    }
  } model;
  const auto draft =
      model.draft({.children = 63, .beam = 63, .min_probability = 0.0f, .max_nodes = 63}, 6);
  CHECK(draft.size() == fd::DraftTree::kMaxNodes);
  CHECK(model.seen.size() <= fd::idx(fd::DraftTree::kMaxNodes));
}

TEST_CASE("settings of a best-first tree out of range are refused") {
  const auto code = [](const fd::BestFirstSettings& settings) {
    return code_of([&] { fd::check(settings); });
  };
  CHECK_NOTHROW(fd::check(fd::BestFirstSettings()));
  for (const int bad : {0, -1, 64}) {
    CHECK(code({.children = bad}) == fd::ErrorCode::kInvalidOption);
    CHECK(code({.beam = bad}) == fd::ErrorCode::kInvalidOption);
    CHECK(code({.max_nodes = bad}) == fd::ErrorCode::kInvalidOption);
  }
  CHECK(code({.min_probability = 1.0f}) == fd::ErrorCode::kInvalidOption);
  CHECK(code({.min_probability = -0.1f}) == fd::ErrorCode::kInvalidOption);
  CHECK(code({.min_probability = std::numeric_limits<float>::quiet_NaN()}) ==
        fd::ErrorCode::kInvalidOption);
}
