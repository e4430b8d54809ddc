#include <foredraft/core/draft_check.hpp>

#include <cmath>
#include <functional>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kText{1, 2, 3};

fd::Context context(bool uses_law = false) { return {kText, {}, {}, uses_law, nullptr, 16}; }

bool passes(const fd::DraftTree& draft, fd::Limit limit, const fd::Context& told,
            fd::Shape shape = fd::Shape::kTree) {
  try {
    fd::check_draft(draft, told, limit, shape);
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidDraft);
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a draft beyond its limit, its vocabulary or its anchor is refused") {
  const auto verdict_on = [&](std::function<void(fd::DraftTree&)> make) {
    fd::DraftTree draft;
    draft.reset(3);
    make(draft);
    return passes(draft, {2, 3}, context());
  };
  CHECK(verdict_on([](fd::DraftTree&) {}));
  CHECK(verdict_on([](fd::DraftTree& t) { t.extend(0), t.extend(15), t.add(0, 4); }));
  CHECK_FALSE(
      verdict_on([](fd::DraftTree& t) { t.extend(0), t.extend(0), t.extend(0); }));  // too deep
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) {
    for (int i = 0; i < 4; ++i) t.add(0, i);
  }));  // too many
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.extend(16); }));
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.extend(-1); }));
  CHECK_FALSE(verdict_on([](fd::DraftTree& t) { t.reset(4); }));
}

TEST_CASE("a tree is refused where a chain was promised") {
  fd::DraftTree draft;
  draft.reset(3);
  draft.extend(1);
  CHECK(passes(draft, {2, 3}, context(), fd::Shape::kChain));
  draft.add(0, 2);
  CHECK_FALSE(passes(draft, {2, 3}, context(), fd::Shape::kChain));
  CHECK(passes(draft, {2, 3}, context()));
}

TEST_CASE("a q that is no law is refused wherever it stands, if the rule makes use of it") {
  const auto accepts = [&](const fd::Law& q, fd::NodeIndex at, bool uses_law = true) {
    fd::DraftTree draft;
    draft.reset(3);
    for (fd::NodeIndex node = 0; node < 3; ++node) {
      draft.drawn_from(node) = node == at ? q : fd::Law{{5, 6}, {0.5, 0.5}};
      draft.extend(5);
    }
    return passes(draft, {3, 3}, context(uses_law));
  };
  const std::vector<fd::Law> bad{{{5, 6}, {0.5, 0.4}},    {{5, 6}, {0.5, 0.6}},
                                 {{6, 5}, {0.5, 0.5}},    {{5, 5}, {0.5, 0.5}},
                                 {{5, 6}, {1.5, -0.5}},   {{5, 6}, {1.0, std::nan("")}},
                                 {{5, 6, 7}, {0.5, 0.5}}, {}};
  for (fd::NodeIndex node = 0; node < 3; ++node) {
    for (const fd::Law& q : bad) {
      CHECK_FALSE(accepts(q, node));
      CHECK(accepts(q, node, false));
    }
    CHECK(accepts({{2, 5}, {0.25, 0.75}}, node));
    CHECK(accepts({}, 3));  // nothing was drawn behind the last node
  }
}
