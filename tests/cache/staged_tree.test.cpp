#include <foredraft/cache/staged_tree.hpp>

#include <algorithm>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Nodes = std::vector<fd::Node>;
using Path = std::vector<fd::NodeIndex>;

/// Ancestors of a node and itself, from the root.
Path path_to(const Nodes& nodes, fd::NodeIndex node) {
  Path path;
  for (; node >= 0; node = nodes[fd::idx(node)].parent) path.insert(path.begin(), node);
  return path;
}

/// A node of `nodes` has its index as token, so that renumbered ones are known again.
Nodes random_forest(int n, std::mt19937& random) {
  Nodes nodes;
  for (int i = 0; i < n; ++i) {
    nodes.push_back({i, static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1});
  }
  return nodes;
}

bool follows(const Nodes& nodes, fd::NodeIndex node, fd::NodeIndex ancestor) {
  for (; node >= 0; node = nodes[fd::idx(node)].parent) {
    if (node == ancestor) return true;
  }
  return ancestor == fd::kCommitted;
}

}  // namespace

TEST_CASE("nodes of a random tree see their ancestors") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial) {
    const Nodes nodes = random_forest(12, random);
    fd::StagedTree tree(12);
    tree.stage(std::span(nodes).first(5));  // in two parts
    tree.stage(std::span(nodes).subspan(5));
    const auto paths = tree.paths(3, 9);
    for (fd::NodeIndex node = 3; node < 12; ++node) {
      const Path expected = path_to(nodes, node);
      CHECK(tree.depth(node) == static_cast<int>(expected.size()) - 1);
      if (paths.begin.empty()) continue;  // a chain, by chance
      const auto begin = paths.nodes.begin() + paths.begin[fd::idx(node - 3)];
      const auto end = paths.nodes.begin() + paths.begin[fd::idx(node - 2)];
      CHECK(Path(begin, end) == expected);
    }
  }
}

TEST_CASE("a chain needs no paths, wherever it begins") {
  fd::StagedTree tree(8);
  tree.stage(Nodes{{5, fd::kCommitted}, {6, 0}});
  tree.stage(Nodes{{7, 1}});
  CHECK(tree.paths(1, 2).begin.empty());
  CHECK(tree.depth(2) == 2);
  tree.stage(Nodes{{8, fd::kCommitted}});
  CHECK(!tree.paths(0, 3).begin.empty());  // not all that is staged is one chain
  tree.commit(Path{0}, [](fd::NodeIndex, fd::NodeIndex) {});
  CHECK(tree.paths(0, 2).begin.empty());
  CHECK(tree.token(1) == 7);
}

TEST_CASE("a commit keeps the subtree below the path's end, and moves each row to its place") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const int n = 1 + static_cast<int>(random() % 14);
    Nodes nodes = random_forest(n, random);
    fd::StagedTree tree(16);
    tree.stage(nodes);
    std::vector<int> rows;  // what lies in each place: the node that was staged there
    for (int i = 0; i < n; ++i) rows.push_back(i);

    const auto end = static_cast<fd::NodeIndex>(random() % static_cast<unsigned>(n + 1)) - 1;
    const Path path = path_to(nodes, end);
    std::vector<int> expected(path.begin(), path.end());
    for (int i = 0; i < n; ++i) {
      if (i != end && follows(nodes, i, end)) expected.push_back(i);
    }
    tree.commit(path, [&](fd::NodeIndex from, fd::NodeIndex to) {
      CHECK(from > to);
      rows[fd::idx(to)] = rows[fd::idx(from)];
    });
    CHECK(std::vector<int>(rows.begin(), rows.begin() + static_cast<int>(expected.size())) ==
          expected);

    REQUIRE(tree.size() == static_cast<int>(expected.size() - path.size()));
    for (fd::NodeIndex i = 0; i < tree.size(); ++i) {
      const int was = tree.token(i);
      CHECK(was == expected[path.size() + fd::idx(i)]);
      const fd::NodeIndex parent = nodes[fd::idx(was)].parent;
      CHECK(tree.parent(i) ==
            (parent == end
                 ? fd::kCommitted
                 : static_cast<fd::NodeIndex>(std::find(expected.begin(), expected.end(), parent) -
                                              expected.begin()) -
                       static_cast<int>(path.size())));
    }
  }
}

TEST_CASE("what cannot be staged is refused, and changes nothing") {
  fd::StagedTree tree(4);
  tree.stage(Nodes{{1, fd::kCommitted}, {2, 0}});
  const auto refused = [&](const Nodes& nodes) {
    CHECK_THROWS_AS(tree.stage(nodes), fd::Error);
    CHECK(tree.size() == 2);
    CHECK(tree.paths(0, 2).begin.empty());
  };
  refused({{3, 2}});  // its own parent
  refused({{3, 3}});  // a parent that comes later
  refused({{3, -2}});
  refused({{3, 0}, {4, 1}, {5, 2}});  // one too many
  tree.stage(Nodes{{3, 1}, {4, 2}});  // as many as it was made for
  tree.discard();
  CHECK(tree.size() == 0);
}
