#include <foredraft/prefix_store.hpp>

#include <cstddef>
#include <foredraft/cache/row_copies.hpp>
#include <foredraft/foredraft.hpp>
#include <memory>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/forward_cache.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Toy = fd::Decoder<toy::Target, toy::TokenCache, fd::NoDraft, fd::Greedy>;

constexpr std::size_t kPlenty = std::size_t{1} << 30;

/// The tokens 0, 1, ... n - 1, with another one at `odd`.
Tokens text(int n, int odd = -1) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(i == odd ? 999 : i);
  return tokens;
}

struct Fixture {
  /// All of `tokens` but the last one, the anchor, is computed.
  bool keep(const Tokens& tokens) {
    decoder.prefill(tokens);
    return store.keep(decoder);
  }
  /// Tokens that the snapshot found was computed for; -1: none.
  int found(const Tokens& tokens) {
    const auto* snapshot = store.find(tokens);
    return snapshot == nullptr ? -1 : static_cast<int>(snapshot->tokens.size()) - 1;
  }

  toy::Target target{1000};
  Toy decoder{target, toy::TokenCache(1000), {}, {}};
  fd::PrefixStore<Toy> store{kPlenty};
};

}  // namespace

TEST_CASE("the snapshot found is the deepest of which all that was computed begins the text") {
  Fixture f;
  CHECK(f.found(text(50)) == -1);
  CHECK(f.keep(text(11)));
  CHECK(f.keep(text(31)));
  CHECK(f.keep(text(31, 20)));
  CHECK(f.store.size() == 3);
  CHECK(f.found(text(50)) == 30);
  CHECK(f.found(text(30)) == 30);  // with the anchor or without
  CHECK(f.found(text(29)) == 10);
  CHECK(f.found(text(50, 20)) == 30);
  CHECK(f.found(text(50, 15)) == 10);
  CHECK(f.found(text(50, 5)) == -1);
  CHECK(f.found({}) == -1);
}

TEST_CASE("what is known already is not kept twice, and nothing is nothing") {
  Fixture f;
  CHECK_FALSE(f.store.keep(f.decoder));
  CHECK_FALSE(f.keep({7}));  // one token is an anchor, nothing was computed
  CHECK(f.keep(text(11)));
  const std::size_t bytes = f.store.bytes();
  CHECK(bytes > 10 * sizeof(fd::TokenId));
  CHECK(f.keep(text(11)));
  Tokens other = text(11);
  other.back() = 77;  // another anchor behind the same cache
  CHECK(f.keep(other));
  CHECK(f.store.size() == 1);
  CHECK(f.store.bytes() == bytes);
  f.store.clear();
  CHECK(f.store.size() == 0);
  CHECK(f.store.bytes() == 0);
  CHECK(f.found(text(50)) == -1);
}

TEST_CASE("those go first that were not used for longest, and the budget holds") {
  Fixture measure;
  measure.keep(text(101));
  const std::size_t one = measure.store.bytes();
  Fixture f;
  fd::PrefixStore<Toy> store(3 * one + one / 2);
  const auto keep = [&](int odd) {
    f.decoder.prefill(text(101, odd));
    const bool kept = store.keep(f.decoder);
    CHECK(store.bytes() <= store.budget());
    return kept;
  };
  for (const int odd : {1, 2, 3}) CHECK(keep(odd));
  CHECK(store.size() == 3);
  CHECK(store.find(text(101, 1)) != nullptr);  // used again
  CHECK(keep(4));
  CHECK(store.size() == 3);
  CHECK(store.find(text(101, 2)) == nullptr);
  CHECK(store.find(text(101, 1)) != nullptr);
  CHECK(keep(5));
  CHECK(store.find(text(101, 3)) == nullptr);
  CHECK(store.find(text(101, 4)) != nullptr);
}

TEST_CASE("what is larger than the whole budget is not kept and drives nothing out") {
  Fixture f;
  fd::PrefixStore<Toy> store(2000);
  f.decoder.prefill(text(11));
  CHECK(store.keep(f.decoder));
  f.decoder.prefill(text(900, 3));
  CHECK_FALSE(store.keep(f.decoder));
  CHECK(store.size() == 1);
  CHECK(store.find(text(50)) != nullptr);
}

TEST_CASE("what many texts begin with stays, because it is used with each of them") {
  Fixture measure;
  measure.keep(text(101));
  Fixture f;
  fd::PrefixStore<Toy> store(4 * measure.store.bytes());
  f.decoder.prefill(text(20));
  store.keep(f.decoder);
  for (int odd = 30; odd < 60; ++odd) {
    const Tokens prompt = text(101, odd);
    CHECK(store.recall(f.decoder, prompt) >= 19);
    f.decoder.prefill(prompt);
    store.keep(f.decoder);
  }
  CHECK(store.size() == 4);
  CHECK(store.find(text(25))->tokens.size() == 20);
}

TEST_CASE("recall restores what the decoder has less of itself") {
  Fixture f;
  f.keep(text(40));
  f.decoder.prefill(text(80));
  CHECK(f.store.recall(f.decoder, text(60)) == 59);  // its own, truncated
  CHECK(f.decoder.tokens().size() == 80);
  f.decoder.prefill(text(80, 3));
  CHECK(f.store.recall(f.decoder, text(60)) == 39);
  CHECK(f.decoder.tokens().size() == 40);
  const auto result = f.decoder.prefill(text(60));
  CHECK(result.stats.reused_tokens == 39);
  f.decoder.prefill(text(80, 3));
  CHECK(f.store.recall(f.decoder, text(40)) == 39);
  f.decoder.prefill(text(80, 3));
  CHECK(f.store.recall(f.decoder, text(30)) == 3);  // all but the last token has to be there
  CHECK(f.store.recall(f.decoder, {}) == 0);
}

TEST_CASE("a cache that cannot be truncated goes on from the store, with the same text") {
  using Decoder =
      fd::Decoder<forwards::Target, forwards::ForwardCache, fd::PromptLookup, fd::Greedy>;
  forwards::Target target(40, 0);
  const auto fresh = [&] { return Decoder(target, {}, {}, {}); };
  fd::PrefixStore<Decoder> store(kPlenty);
  Decoder decoder = fresh();
  decoder.prefill(text(20));
  store.keep(decoder);
  for (int odd = 25; odd < 35; ++odd) {
    Tokens prompt = text(40);
    prompt[fd::idx(odd)] = 7;
    CHECK(store.recall(decoder, prompt) == 19);
    const auto found = decoder.generate(prompt, {.max_tokens = 30, .n_draft = 4});
    CHECK(found.stats.reused_tokens == 19);
    CHECK(found.tokens == fresh().generate(prompt, {.max_tokens = 30, .n_draft = 0}).tokens);
  }
}

TEST_CASE("a prompt is read in steps, each of which is found by texts that part from it later") {
  Fixture f;
  // Options are those of the call that follows, whatever it drafts.
  fd::Stats read = f.store.read(f.decoder, text(36), {.n_draft = 4, .n_nodes = 8}, 10);
  CHECK(read.reused_tokens == 0);
  CHECK(read.prompt_tokens == 31);
  CHECK(f.store.size() == 3);
  CHECK(f.decoder.generate(text(36), {.max_tokens = 1}).stats.reused_tokens == 30);
  CHECK(f.found(text(36, 25)) == 20);
  CHECK(f.found(text(36, 5)) == -1);

  Toy other(f.target, toy::TokenCache(1000), {}, {});
  read = f.store.read(other, text(50, 25), {}, 10);
  CHECK(read.reused_tokens == 20);
  CHECK(f.store.size() == 5);  // at 30 and 40 tokens of this text
  read = f.store.read(other, text(50, 25), {}, 10);
  CHECK(read.reused_tokens == 40);
  CHECK(read.prompt_tokens == 0);  // there was nothing to read
  CHECK(f.store.read(other, text(5), {}, 10).prompt_tokens == 0);

  read = f.store.read(other, text(60, 1), {.cancelled = [] { return true; }}, 10);
  CHECK(read.prompt_tokens > 0);
  CHECK(f.store.size() == 5);
  CHECK_THROWS_AS(f.store.read(other, text(60), {}, 0), fd::Error);

  // All of the prompt but its last token, which is the anchor.
  Fixture whole;
  CHECK(whole.store.read(whole.decoder, text(11), {}, 10).prompt_tokens == 11);
  CHECK(whole.decoder.generate(text(11), {.max_tokens = 1}).stats.reused_tokens == 10);
  // What does not fit is left to generate(), which says by how much.
  CHECK(whole.store.read(whole.decoder, text(1000), {}, 10).prompt_tokens == 0);
  CHECK(whole.decoder.tokens().size() == 12);

  fd::PrefixStore<Toy> none(0);
  CHECK(none.read(other, text(60, 2), {}, 10).prompt_tokens == 11);  // one step, and no more
  CHECK(none.size() == 0);
}

TEST_CASE("one prompt takes at most a quarter of the store") {
  Fixture f;
  f.keep(text(101, 1));
  const std::size_t one = f.store.bytes();
  fd::PrefixStore<Toy> store(8 * one);
  f.decoder.prefill(text(30, 2));
  store.keep(f.decoder);
  store.read(f.decoder, text(900), {}, 20);
  CHECK(store.bytes() <= store.budget() / 4 + 3 * one);
  CHECK(store.find(text(30, 2)) != nullptr);
}

namespace {
/// Has what a store asks of a decoder, and rows that its snapshots share.
struct Sharing {
  struct Snapshot {
    Tokens tokens;
    fd::SharedRows<float> rows;
    static void parts(auto& self, auto& archive) {
      archive(self.tokens);
      archive(self.rows);
    }
  };
  struct Cache {
    int size() const noexcept { return n; }
    int n;
  };
  std::span<const fd::TokenId> tokens() const { return state.tokens; }
  Cache cache() const { return {static_cast<int>(state.tokens.size())}; }
  Snapshot snapshot() const { return state; }

  void extend(int n) {
    for (int i = 0; i < n; ++i) state.tokens.push_back(static_cast<int>(state.tokens.size()));
    state.rows.push_back(
        std::make_shared<fd::RowCopy<float>>(fd::RowCopy<float>{n, std::vector<float>(1000), {}}));
  }
  Snapshot state;
};
}  // namespace

TEST_CASE("what snapshots share is counted once, as long as one of them is kept") {
  Sharing decoder;
  decoder.extend(10);
  fd::PrefixStore<Sharing> alone(kPlenty);
  alone.keep(decoder);
  const std::size_t one = alone.bytes();
  CHECK(one >= 4000);

  decoder.extend(10);
  decoder.extend(10);
  fd::PrefixStore<Sharing> store(4 * one + 2000);
  store.keep(decoder);  // three copies
  const std::size_t three = store.bytes();
  CHECK(three > 12000);
  for (const int copies : {1, 2}) {
    Sharing shorter = decoder;
    shorter.state.tokens.resize(fd::idx(10 * copies));
    shorter.state.rows.resize(fd::idx(copies));
    store.keep(shorter);
  }
  CHECK(store.size() == 3);
  CHECK(store.bytes() < three + 1000);

  Sharing other;
  other.extend(40);
  other.state.tokens[0] = 7;
  store.keep(other);  // there is room for one more that shares nothing
  CHECK(store.size() == 4);
  other.state.tokens[0] = 8;
  other.state.rows.clear();
  other.extend(1);
  store.keep(other);  // the longest of the three was used least, and two of its copies stay
  CHECK(store.size() == 4);
  CHECK(store.bytes() <= store.budget());
  REQUIRE(store.find(decoder.state.tokens) != nullptr);
  CHECK(store.find(decoder.state.tokens)->tokens.size() == 20);
  store.clear();
  CHECK(store.bytes() == 0);
}
