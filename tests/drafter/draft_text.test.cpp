#include <foredraft/drafter/draft_text.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/simulated_rounds.hpp"
#include "support/spelled_codec.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

namespace {

const std::vector<std::string> kTarget{"a", "b", "c", " ", "ab", "abc", " a", "<|x|>"};
const std::vector<std::string> kDraft{"c", "b", "a", " ", "bc", "ab", "aba", " b", "<|x|>"};

std::string bytes_of(const std::vector<std::string>& pieces, std::span<const fd::TokenId> tokens) {
  std::string bytes;
  for (const fd::TokenId token : tokens) bytes += pieces[fd::idx(token)];
  return bytes;
}

/// What has to hold of a text that follows `final`.
void check_follows(fd::DraftText& text, const Tokens& final) {
  const Tokens before(text.tokens().begin(), text.tokens().end());
  const int standing = text.follow(final);
  CHECK(text.bytes() == bytes_of(kTarget, final));
  CHECK(bytes_of(kDraft, text.tokens()) == text.bytes());
  REQUIRE(standing <= static_cast<int>(std::min(before.size(), text.tokens().size())));
  CHECK(std::equal(before.begin(), before.begin() + standing, text.tokens().begin()));
  CHECK(text.known(static_cast<int>(final.size()) + 3) == static_cast<int>(final.size()));
  CHECK(text.within(static_cast<int>(final.size())) == static_cast<int>(text.tokens().size()));
}

}  // namespace

TEST_CASE("the text is the same in both vocabularies, however it grows and is cut") {
  for (int seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    fd::DraftText text(spelled_codec(kTarget), spelled_codec(kDraft));
    Tokens final;
    std::uint64_t state = static_cast<std::uint64_t>(seed);
    const auto below = [&](std::size_t n) {
      return static_cast<std::size_t>(simulated::unit(++state, 7) * static_cast<double>(n));
    };
    for (int step = 0; step < 60; ++step) {
      if (below(6) == 0 && !final.empty()) final.resize(below(final.size()));
      for (std::size_t n = below(5); n > 0; --n) {
        final.push_back(static_cast<fd::TokenId>(below(kTarget.size())));
      }
      check_follows(text, final);
    }
  }
}

TEST_CASE("a word that goes on is spelled anew, what is far behind it stays") {
  fd::DraftText text(spelled_codec(kTarget), spelled_codec(kDraft));
  text.follow(Tokens{0});
  CHECK(std::vector<fd::TokenId>(text.tokens().begin(), text.tokens().end()) == Tokens{2});
  CHECK(text.follow(Tokens{0, 1}) == 0);  // "a" becomes "ab"
  CHECK(std::vector<fd::TokenId>(text.tokens().begin(), text.tokens().end()) == Tokens{5});
  Tokens longer(200, 0);
  text.follow(longer);
  longer.push_back(2);
  CHECK(text.follow(longer) >= 160);
}

TEST_CASE("a text begins with the token that every text begins with, and can be taken back") {
  fd::TextCodec draft = spelled_codec(kDraft);
  draft.bos = 8;
  fd::DraftText text(spelled_codec(kTarget), draft);
  CHECK(text.tokens().size() == 1);
  CHECK(text.tokens()[0] == 8);
  CHECK(text.follow(Tokens{4}) == 1);
  const fd::DraftText::State state = text.state();
  text.follow(Tokens{4, 3, 2});
  CHECK(text.tail(1) == "c");
  CHECK(text.tail(2) == " c");
  CHECK(text.tail(9) == "ab c");
  CHECK(text.within(1) == 2);
  CHECK(text.within(0) == 0);
  text.restore(state);
  CHECK(text.bytes() == "ab");
  CHECK(text.tokens().size() == 2);
  fd::TextCodec target = spelled_codec(kTarget);
  target.bos = 7;
  fd::DraftText both(target, draft);
  both.follow(Tokens{7, 4, 7});
  CHECK(both.bytes() == "ab<|x|>");  // the target's own beginning is not spelled out
  text.restore({});
  CHECK(text.bytes().empty());
  CHECK(text.tokens().size() == 1);
}

TEST_CASE("a million tokens take memory by their number, however often the text is cut") {
  fd::DraftText text(spelled_codec(kTarget), spelled_codec(kDraft));
  Tokens final;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    final.push_back(static_cast<fd::TokenId>(simulated::mix(i, 7) % kTarget.size()));
  }
  const fd::DraftText::State& state = text.state();
  const auto roomy = [](const auto& values) { return values.capacity() > 2 * values.size() + 32; };
  const auto taken = [&] {
    return sizeof(fd::TokenId) * (state.target_tokens.capacity() + state.tokens.capacity()) +
           sizeof(std::size_t) * (state.target_ends.capacity() + state.ends.capacity()) +
           state.bytes.capacity();
  };
  const auto whole = std::span<const fd::TokenId>(final);
  for (std::size_t n = 4000; n <= whole.size(); n += 4000) {
    text.follow(whole.first(n));
    CHECK_FALSE((roomy(state.target_tokens) || roomy(state.target_ends) || roomy(state.bytes)));
    CHECK_FALSE((roomy(state.tokens) || roomy(state.ends)));
  }
  const std::size_t most = taken();
  for (std::size_t cut = 1; cut < 100; ++cut) {
    text.follow(whole.first(whole.size() - cut * cut));
    text.follow(whole);
  }
  CHECK(taken() == most);
}
