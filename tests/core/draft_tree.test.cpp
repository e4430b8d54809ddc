#include <foredraft/core/draft_tree.hpp>

#include <algorithm>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// 0 - 1 - 3
///   \ 2 - 4 - 5
///       \ 6
fd::DraftTree sample() {
  fd::DraftTree tree;
  tree.reset(100);
  tree.add(0, 11);
  tree.add(0, 12);
  tree.add(1, 13);
  tree.add(2, 14);
  tree.add(4, 15);
  tree.add(2, 16);
  return tree;
}

}  // namespace

TEST_CASE("a tree knows parents, depths and children") {
  const fd::DraftTree tree = sample();
  CHECK(tree.size() == 7);
  CHECK(tree.drafted() == 6);
  CHECK(tree.max_depth() == 3);
  CHECK_FALSE(tree.is_chain());
  CHECK(tree.nodes()[0] == fd::Node{100, fd::kCommitted});
  const int depths[]{0, 1, 1, 2, 2, 3, 2};
  for (int node = 0; node < 7; ++node) CHECK(tree.depth(node) == depths[node]);
  CHECK(tree.first_child(2) == 4);
  CHECK(tree.next_child(2, 4) == 6);
  CHECK(tree.next_child(2, 6) == -1);
  CHECK(tree.first_child(5) == -1);
  CHECK(tree.child_with(0, 12) == 2);
  CHECK(tree.child_with(2, 16) == 6);
  CHECK(tree.child_with(2, 13) == -1);  // a token of another branch
}

TEST_CASE("extending makes a chain, up to 64 nodes") {
  fd::DraftTree tree;
  tree.reset(1);
  CHECK(tree.is_chain());
  for (int i = 1; i < fd::DraftTree::kMaxNodes; ++i) {
    CHECK(tree.extend(i) == i);
    CHECK(tree.parent(i) == i - 1);
  }
  CHECK(tree.is_chain());
  CHECK(tree.max_depth() == 63);
  CHECK_THROWS_AS(tree.extend(0), fd::Error);
  CHECK(tree.size() == 64);
  tree.truncate(3);
  tree.add(1, 5);  // a single sibling more
  CHECK_FALSE(tree.is_chain());
}

TEST_CASE("a parent that does not exist is refused") {
  fd::DraftTree tree = sample();
  for (const fd::NodeIndex parent : {-1, 7, 64}) {
    CHECK_THROWS_AS(tree.add(parent, 1), fd::Error);
    CHECK_THROWS_AS(tree.drawn_from(parent), fd::Error);
  }
  CHECK(tree.size() == 7);
}

TEST_CASE("truncation keeps the first nodes, and never removes the anchor") {
  fd::DraftTree tree = sample();
  tree.truncate(99);
  CHECK(tree.size() == 7);
  tree.truncate(4);
  CHECK(tree.size() == 4);
  CHECK(tree.max_depth() == 2);
  CHECK(tree.first_child(2) == -1);
  CHECK(tree.add(2, 21) == 4);
  tree.truncate(0);
  CHECK(tree.size() == 5);
}

TEST_CASE("the depth is that of the nodes that are left") {
  fd::DraftTree tree = sample();
  tree.keep_only(0b111);  // the anchor and the first two nodes
  int deepest = 0;
  for (fd::NodeIndex node = 0; node < tree.size(); ++node) {
    deepest = std::max(deepest, tree.depth(node));
  }
  CHECK(tree.max_depth() == deepest);
  CHECK(deepest < sample().max_depth());
  tree.reset(3);
  CHECK(tree.max_depth() == 0);
}

TEST_CASE("a law says how its children were made, and is gone with the round") {
  fd::DraftTree tree;
  tree.reset(1);
  fd::Law& q = tree.drawn_from(0, fd::Siblings::kWithoutReplacement);
  q.ids = {2, 5};
  q.p = {0.25, 0.75};
  tree.add(0, 5);
  CHECK(tree.siblings(0) == fd::Siblings::kWithoutReplacement);
  CHECK(tree.siblings(1) == fd::Siblings::kPointMass);
  CHECK(tree.law(0)(5) == 0.75);

  // Neither a reset nor a removed node leaves its kind to the node that takes its place.
  tree.drawn_from(1);
  tree.truncate(1);
  tree.add(0, 7);
  CHECK(tree.siblings(1) == fd::Siblings::kPointMass);
  tree.reset(3);
  CHECK(tree.siblings(0) == fd::Siblings::kPointMass);
  CHECK(tree.drawn_from(0).size() == 0);
}

TEST_CASE("a law is 0 outside its support") {
  const fd::Law law{{3, 8, 21, 22}, {0.1, 0.2, 0.3, 0.4}};
  double sum = 0;
  for (fd::TokenId token = -1; token < 40; ++token) sum += law(token);
  CHECK(sum == Approx(1.0));
  CHECK(law(3) == 0.1);
  CHECK(law(22) == 0.4);
  CHECK(law(4) == 0.0);
  CHECK(fd::Law{}(0) == 0.0);
}

TEST_CASE("nodes remember which of several drafters they come from") {
  fd::DraftTree draft;
  draft.reset(7);
  draft.extend(1);
  draft.set_origin(draft.size(), 2);  // nothing was added since
  const fd::NodeIndex second = draft.extend(2);
  draft.extend(3);
  draft.set_origin(second, 1);
  CHECK(draft.origin(0) == 0);
  CHECK(draft.origin(1) == 0);
  CHECK(draft.origin(2) == 1);
  CHECK(draft.origin(3) == 1);
  draft.truncate(2);
  draft.extend(4);
  CHECK(draft.origin(2) == 0);
}

TEST_CASE("a node's confidence is unknown until the drafter says it") {
  fd::DraftTree draft;
  draft.reset(1);
  const fd::NodeIndex node = draft.extend(2);
  CHECK(draft.confidence(node) == fd::DraftTree::kUnknown);
  draft.set_confidence(node, 0.5f);
  CHECK(draft.confidence(node) == 0.5f);
  draft.truncate(node);
  CHECK(draft.confidence(draft.extend(3)) == fd::DraftTree::kUnknown);
}
