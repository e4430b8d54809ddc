#include <foredraft/sampling/history.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Ids = std::vector<fd::TokenId>;

Ids read(const fd::Lookback& text) {
  Ids ids;
  for (std::size_t i = 0; i < text.size(); ++i) ids.push_back(text[i]);
  return ids;
}

}  // namespace

TEST_CASE("a lookback reads the path to a node, then the final tokens, newest first") {
  const Ids tokens{1, 2, 3};
  fd::DraftTree draft;
  draft.reset(3);
  const fd::NodeIndex a = draft.add(0, 10);
  draft.add(0, 20);  // a sibling, which is on no path of a's children
  const fd::NodeIndex b = draft.add(a, 11);
  CHECK(read(fd::Lookback({tokens, &draft, 0})) == Ids{3, 2, 1});
  CHECK(read(fd::Lookback({tokens, &draft, b})) == Ids{11, 10, 3, 2, 1});
  CHECK(read(fd::Lookback({tokens})) == Ids{3, 2, 1});
  CHECK(read(fd::Lookback({})).empty());
}

TEST_CASE("a lookback reaches as far as it is told, and as there is text") {
  const Ids tokens{1, 2, 3};
  const fd::Lookback text({tokens});
  CHECK(text.reach(-1) == 3);
  CHECK(text.reach(0) == 0);
  CHECK(text.reach(2) == 2);
  CHECK(text.reach(9) == 3);
  // Drafted tokens are among those that it reaches, not beside them.
  fd::DraftTree draft;
  draft.reset(3);
  CHECK(fd::Lookback({tokens, &draft, draft.add(0, 4)}).reach(2) == 2);
}

TEST_CASE("a lookback finds what the text ends with, across the border of the draft") {
  const Ids tokens{1, 2, 3};
  fd::DraftTree draft;
  draft.reset(3);
  const fd::NodeIndex node = draft.add(0, 4);
  const fd::Lookback text({tokens, &draft, node});
  CHECK(text.ends_with(Ids{}));
  CHECK(text.ends_with(Ids{4}));
  CHECK(text.ends_with(Ids{2, 3, 4}));
  CHECK(text.ends_with(Ids{1, 2, 3, 4}));
  CHECK_FALSE(text.ends_with(Ids{0, 1, 2, 3, 4}));
  CHECK_FALSE(text.ends_with(Ids{3}));
  CHECK(text.ends_with(Ids{2, 3}, 1));
  CHECK_FALSE(text.ends_with(Ids{1, 2}, 1));
}

TEST_CASE("a ring keeps the newest tokens in one piece, oldest first") {
  for (const std::size_t capacity : {0u, 1u, 3u, 8u}) {
    fd::TokenRing ring(capacity);
    Ids all;
    CHECK(ring.newest().empty());
    for (fd::TokenId token = 100; token < 130; ++token) {
      ring.push(token);
      all.push_back(token);
      const auto kept = std::min(capacity, all.size());
      CHECK(ring.size() == all.size());
      CHECK(Ids(ring.newest().begin(), ring.newest().end()) ==
            Ids(all.end() - static_cast<std::ptrdiff_t>(kept), all.end()));
    }
  }
}

TEST_CASE("tokens that are forgotten count for the position, and cannot be looked at") {
  const Ids tokens{1, 2, 3};
  const fd::Lookback text({.tokens = tokens, .forgotten = 7});
  CHECK(text.position() == 10);
  CHECK(text.size() == 3);
  CHECK(text.reach(-1) == 3);
  CHECK_FALSE(text.ends_with(Ids{0, 1, 2, 3}));
}
