#include <foredraft/decoder.hpp>
#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

const std::vector<fd::TokenId> kPrompt{3, 1, 4, 1, 5};

fd::Result plain(toy::Target& target, const fd::Options& options,
                 std::span<const fd::TokenId> prompt = kPrompt) {
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
  return decoder.generate(prompt, options);
}

std::vector<fd::TokenId> with_prompt(const std::vector<fd::TokenId>& tokens) {
  std::vector<fd::TokenId> all = kPrompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

}  // namespace

TEST_CASE("greedy text is the plain text at every depth, chain and tree") {
  toy::Target target(32, 0);  // a row depends on the whole text before it
  constexpr int kTokens = 900;
  const auto truth = plain(target, {.max_tokens = kTokens}).tokens;
  REQUIRE(truth.size() == kTokens);
  for (const int branches : {1, 3}) {
    for (int depth = 1; depth <= 16; ++depth) {
      CAPTURE(branches, depth);
      const double errors =
          1.0 / (depth + 1);  // so that the last index is reached, and missed, too
      fd::Decoder decoder{target, toy::TokenCache{},
                          OracleDrafter{with_prompt(truth), 32, errors, 7, branches}, fd::Greedy{}};
      const auto result = decoder.generate(kPrompt, {.max_tokens = kTokens, .n_draft = depth});
      CHECK(result.tokens == truth);
      CHECK(decoder.drafter().covered(depth));
    }
  }
}

TEST_CASE("a draft of a million tokens is as long as a draft can be") {
  toy::Target target(32, 0);
  const auto truth = plain(target, {.max_tokens = 200}).tokens;
  for (const int branches : {1, 3}) {
    fd::Decoder decoder{target, toy::TokenCache{},
                        OracleDrafter{with_prompt(truth), 32, 0.1, 7, branches}, fd::Greedy{}};
    const auto result =
        decoder.generate(kPrompt, {.max_tokens = 200, .n_draft = 1'000'000, .n_nodes = 1'000'000});
    CHECK(result.tokens == truth);
    CHECK(result.stats.accepted > 0);
  }
}

TEST_CASE("match gives the same text for a seed with any drafter") {
  toy::Target target(32, 2);
  for (const std::uint64_t seed : {0ull, 1ull, 99ull}) {
    const fd::Options options{.max_tokens = 200,
                              .n_draft = 16,
                              .sampling = {.temperature = 1.0f, .top_k = 12},
                              .seed = seed};
    const auto truth = plain(target, options).tokens;
    fd::Decoder lookup{target, toy::TokenCache{}, fd::PromptLookup{}, fd::SampleAndMatch{}};
    CHECK(lookup.generate(kPrompt, options).tokens == truth);
    fd::Decoder oracle{target, toy::TokenCache{},
                       OracleDrafter::sweeping(with_prompt(truth), 32, 2), fd::SampleAndMatch{}};
    const auto result = oracle.generate(kPrompt, options);
    CHECK(result.tokens == truth);
    CHECK(oracle.drafter().covered(options.n_draft));
    CHECK(result.stats.rounds < 40);
  }
}

TEST_CASE("every emitted token is accepted, bonus, corrected or plain") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 100}).tokens;
  for (int max_tokens = 1; max_tokens <= 40; ++max_tokens) {
    fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{with_prompt(truth), 16, 0.3, 3},
                        fd::Greedy{}};
    const auto result = decoder.generate(kPrompt, {.max_tokens = max_tokens, .n_draft = 5});
    const fd::Stats& s = result.stats;
    CHECK(result.tokens.size() == fd::idx(max_tokens));
    CHECK(s.emitted == max_tokens);
    CHECK(s.emitted == s.accepted + s.bonus + s.corrected + s.plain);
    CHECK(std::count(result.from_draft.begin(), result.from_draft.end(), true) == s.accepted);
    std::int64_t by_position = 0;
    for (const auto n : s.accepted_per_position) by_position += n;
    CHECK(by_position == s.accepted);
  }
}

TEST_CASE("a cut at any index leaves a decoder that goes on as if nothing had happened") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 80}).tokens;
  for (int first = 0; first <= 24; ++first) {
    CAPTURE(first);
    fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{with_prompt(truth), 16, 0.2, 5},
                        fd::Greedy{}};
    auto tokens = decoder.generate(kPrompt, {.max_tokens = first, .n_draft = 7}).tokens;
    CHECK(decoder.cache().size() + 1 <= static_cast<int>(decoder.tokens().size()));
    const auto rest = decoder.resume({.max_tokens = 80 - first, .n_draft = 7}).tokens;
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    CHECK(tokens == truth);
  }
}

TEST_CASE("an end token stops the text wherever it falls in a block, accepted or rejected") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 120}).tokens;
  for (std::size_t at = 0; at < 30; ++at) {
    target.end_token = truth[at];
    const auto first = std::find(truth.begin(), truth.end(), truth[at]);
    const std::vector<fd::TokenId> expected(truth.begin(), first + 1);
    for (const double errors : {0.0, 0.3, 1.0}) {
      fd::Decoder decoder{target, toy::TokenCache{},
                          OracleDrafter{with_prompt(truth), 16, errors, at}, fd::Greedy{}};
      const auto result = decoder.generate(kPrompt, {.max_tokens = 120, .n_draft = 6});
      CHECK(result.tokens == expected);
      CHECK(result.finish_reason == fd::FinishReason::kEnd);
      // Continue behind the end token: the caches hold what plain decoding would hold.
      const auto rest = decoder.resume({.max_tokens = 20, .n_draft = 6, .ignore_end = true}).tokens;
      const auto from = truth.begin() + static_cast<std::ptrdiff_t>(expected.size());
      CHECK(rest == std::vector<fd::TokenId>(from, from + 20));
    }
  }
  target.end_token = -1;
}

TEST_CASE("a stop string ends the text before it, also across tokens and rounds") {
  toy::Target target(26, 0);
  for (int i = 0; i < 26; ++i) target.pieces.push_back(std::string(1, static_cast<char>('a' + i)));
  const auto truth = plain(target, {.max_tokens = 60});
  for (std::size_t at = 0; at + 3 < 40; ++at) {
    const std::string stop = truth.text.substr(at, 3);
    const std::size_t match = truth.text.find(stop);
    fd::Decoder decoder{target, toy::TokenCache{},
                        OracleDrafter{with_prompt(truth.tokens), 26, 0.25, at}, fd::Greedy{}};
    std::string shown;
    const auto result =
        decoder.generate(kPrompt, {.max_tokens = 60, .n_draft = 5, .stop = {"zzzz", stop}},
                         [&](const fd::Emitted& e) { shown += e.text; });
    CHECK(result.finish_reason == fd::FinishReason::kStop);
    CHECK(result.text == truth.text.substr(0, match));
    CHECK(shown == result.text);
    CHECK(result.tokens.size() == match + 3);
  }
}

TEST_CASE("the context limit is reached exactly and never passed") {
  toy::Target target(16, 0);
  for (int capacity = 6; capacity < 40; ++capacity) {
    for (const int depth : {0, 1, 4, 9}) {
      fd::Decoder decoder{target, toy::TokenCache{capacity}, OracleDrafter{{}, 16, 0.5, 1},
                          fd::Greedy{}};
      const auto result = decoder.generate(kPrompt, {.max_tokens = -1, .n_draft = depth});
      CHECK(result.finish_reason == fd::FinishReason::kContext);
      CHECK(decoder.tokens().size() == fd::idx(capacity));
    }
  }
}

TEST_CASE("a round that is cancelled or fails leaves no trace") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 40}).tokens;
  // Cancel at the k-th poll, and fail at the k-th pass, for every k that occurs.
  for (int k = 0; k < 40; ++k) {
    CAPTURE(k);
    fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{with_prompt(truth), 16, 0.3, 2},
                        fd::Greedy{}};
    int polls = 0;
    auto result = decoder.generate(kPrompt, {.max_tokens = 40,
                                             .n_draft = 4,
                                             .cancelled = [&] { return polls++ == k; },
                                             .prefill_block = 2});
    std::vector<fd::TokenId> tokens = result.tokens;
    if (result.finish_reason == fd::FinishReason::kCancelled) {
      const auto rest =
          decoder.resume({.max_tokens = 40 - static_cast<int>(tokens.size()), .n_draft = 4}).tokens;
      tokens.insert(tokens.end(), rest.begin(), rest.end());
    }
    CHECK(tokens == truth);

    fd::Decoder failing{target, toy::TokenCache{}, OracleDrafter{with_prompt(truth), 16, 0.3, 2},
                        fd::Greedy{}};
    tokens.clear();
    const auto keep = [&](const fd::Emitted& e) { tokens.push_back(e.token); };
    int passes = 0;
    target.before_forward = [&] {
      if (passes++ == k) throw std::runtime_error("device lost");
    };
    const fd::Options options{.max_tokens = 40, .n_draft = 4, .prefill_block = 2};
    bool failed = false;
    try {
      failing.generate(kPrompt, options, keep);
    } catch (const std::runtime_error&) {
      failed = true;
    }
    target.before_forward = nullptr;
    if (failed)
      failing.resume({.max_tokens = 40 - static_cast<int>(tokens.size()), .n_draft = 4}, keep);
    CHECK(tokens == truth);
  }
}

TEST_CASE("room for a full context is there before the first commit, which may not allocate") {
  toy::Target target(16, 0);
  fd::Decoder decoder{target, toy::TokenCache{500}, fd::PromptLookup{}, fd::Greedy{}};
  const fd::TokenId* place = nullptr;
  int moved = 0;
  decoder.generate(kPrompt, {.max_tokens = -1, .n_draft = 16}, [&](const fd::Emitted&) {
    moved += place != nullptr && place != decoder.tokens().data();
    place = decoder.tokens().data();
  });
  CHECK(decoder.tokens().size() == 500);
  CHECK(moved == 0);
}

TEST_CASE("a cancel while drafting spares the target's pass") {
  struct CancellingDrafter : fd::NoDraft {
    bool* cancel = nullptr;
    int max_depth() const noexcept { return 1; }
    void propose(const fd::Context&, fd::Limit, fd::DraftTree&) const { *cancel = true; }
  };
  toy::Target target(16, 0);
  bool cancel = false;
  CancellingDrafter drafter;
  drafter.cancel = &cancel;
  fd::Decoder decoder{target, toy::TokenCache{}, drafter, fd::Greedy{}};
  const auto result = decoder.generate(kPrompt, {.cancelled = [&] { return cancel; }});
  CHECK(result.finish_reason == fd::FinishReason::kCancelled);
  CHECK(result.tokens.size() == 1);  // the first round drafts nothing
  CHECK(target.passes == 2);         // that of the prompt and that round's
}

TEST_CASE("tokens behind a throwing emit are delivered first by the next call") {
  toy::Target target(16, 0);
  target.end_token = -1;
  const auto truth = plain(target, {.max_tokens = 30}).tokens;
  for (int k = 0; k < 30; ++k) {
    fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{with_prompt(truth), 16, 0.2, 4},
                        fd::Greedy{}};
    std::vector<fd::TokenId> seen;
    const auto emit = [&](const fd::Emitted& e) {
      seen.push_back(e.token);
      if (static_cast<int>(seen.size()) == k + 1) throw std::runtime_error("full disk");
    };
    CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 30, .n_draft = 6}, emit),
                    std::runtime_error);
    const int final = static_cast<int>(decoder.tokens().size() - kPrompt.size());
    const auto rest = decoder.resume({.max_tokens = 30 - final, .n_draft = 6}, emit);
    CHECK(seen == truth);
    CHECK(rest.finish_reason == fd::FinishReason::kLength);
  }
}

TEST_CASE("a limit that an earlier call reached while emit threw does not bind the next one") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 20}).tokens;
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  std::vector<fd::TokenId> seen;
  const auto emit = [&](const fd::Emitted& e) {
    seen.push_back(e.token);
    if (seen.size() == 8) throw std::runtime_error("full disk");
  };
  CHECK_THROWS(decoder.generate(kPrompt, {.max_tokens = 8}, emit));
  CHECK(decoder.resume({.max_tokens = 12}, emit).finish_reason == fd::FinishReason::kLength);
  CHECK(seen == truth);
}

TEST_CASE("an end token whose emit threw still ends the text") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 30}).tokens;
  target.end_token = truth[9];
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const auto emit = [&](const fd::Emitted& e) {
    if (e.token == target.end_token) throw std::runtime_error("x");
  };
  CHECK_THROWS(decoder.generate(kPrompt, {.max_tokens = 30}, emit));
  const auto rest = decoder.resume({.max_tokens = 30});
  CHECK(rest.tokens.empty());
  CHECK(rest.finish_reason == fd::FinishReason::kEnd);
}

TEST_CASE("a second prompt reuses what it shares with the first") {
  for (const int n_draft : {int{fd::Options::kAutomatic}, 16}) {
    CAPTURE(n_draft);
    const fd::Options options{.max_tokens = 20, .n_draft = n_draft};
    toy::Target target(16, 0);
    fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
    const auto first = decoder.generate(kPrompt, options);
    std::vector<fd::TokenId> second = with_prompt(first.tokens);
    second.insert(second.end(), {2, 7, 1});
    const auto expected = plain(target, {.max_tokens = 20}, second).tokens;
    const auto result = decoder.generate(second, options);
    CHECK(result.tokens == expected);
    CHECK(result.stats.reused_tokens == 24);
    const std::vector<fd::TokenId> other{9, 9};
    CHECK(decoder.generate(other, options).tokens ==
          plain(target, {.max_tokens = 20}, other).tokens);
  }
}

TEST_CASE("bad input is refused with its code") {
  toy::Target target(16);
  fd::Decoder decoder{target, toy::TokenCache{8}, fd::NoDraft{}, fd::Greedy{}};
  const auto code_of = [&](std::span<const fd::TokenId> prompt, const fd::Options& options) {
    try {
      decoder.generate(prompt, options);
    } catch (const fd::Error& error) {
      return fd::name_of(error.code());
    }
    return std::string_view("none");
  };
  const std::vector<fd::TokenId> two{1, 2};
  CHECK(code_of({}, {}) == "empty-prompt");
  CHECK(code_of(std::vector<fd::TokenId>(8, 1), {}) == "context-overflow");
  CHECK(code_of(std::vector<fd::TokenId>{1, 16}, {}) == "token-out-of-range");
  CHECK(code_of(std::vector<fd::TokenId>{-1}, {}) == "token-out-of-range");
  CHECK(code_of(two, {.sampling = {.temperature = 1}}) ==
        "invalid-option");  // greedy acceptance would ignore it
  CHECK(code_of(two, {.sampling = {.temperature = -1}}) == "invalid-option");
  CHECK(code_of(two, {.sampling = {.temperature = std::nanf("")}}) == "invalid-option");
  CHECK(code_of(two, {.sampling = {.top_k = 3}}) == "invalid-option");
  CHECK(code_of(two, {.n_draft = -2}) == "invalid-option");
  CHECK(code_of(two, {.stop = {""}}) == "invalid-option");
  CHECK(code_of(two, {.max_tokens = 2}) == "none");
  CHECK_THROWS_AS((fd::Decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}}.resume()),
                  fd::Error);
}

namespace {

/// Notes what it is told about the acceptance rule.
struct AskingDrafter : fd::NoDraft {
  bool* uses_law = nullptr;
  int max_depth() const noexcept { return 1; }
  void propose(const fd::Context& context, fd::Limit, fd::DraftTree&) const {
    *uses_law = context.uses_law;
  }
};

/// A target that knows no text.
struct WordlessTarget {
  static constexpr bool row_exact = true;
  int vocab_size() const { return target.vocab_size(); }
  void forward(std::span<fd::Request<toy::TokenCache>> requests) { target.forward(requests); }
  toy::Target target{16, 0};
};

}  // namespace

TEST_CASE("a drafter is told whether the rule at hand makes use of q") {
  toy::Target target(16);
  bool uses_law = false;
  AskingDrafter drafter;
  drafter.uses_law = &uses_law;
  const auto asked = [&](auto rule) {
    fd::Decoder{target, toy::TokenCache{}, drafter, rule}.generate(kPrompt, {.max_tokens = 3});
    return uses_law;
  };
  CHECK(asked(fd::RejectionSampling{}));
  CHECK_FALSE(asked(fd::SampleAndMatch{}));
  CHECK(asked(fd::AnyAcceptance(fd::BlockVerification{})));
  CHECK_FALSE(asked(fd::AnyAcceptance(fd::SampleAndMatch{})));
}

TEST_CASE("end tokens of a call take the place of those that the target knows") {
  toy::Target target(16, 0);
  const auto truth = plain(target, {.max_tokens = 60}).tokens;
  const auto end_at = [&](std::size_t i) {
    return std::find(truth.begin(), truth.end(), truth[i]);
  };
  std::size_t later = 1;
  while (end_at(later) - truth.begin() != static_cast<std::ptrdiff_t>(later)) ++later;  // a new one
  target.end_token = truth[0];
  CHECK(plain(target, {.max_tokens = 60}).tokens.size() == 1);
  CHECK(plain(target, {.max_tokens = 60, .end_tokens = {truth[later]}}).tokens.size() == later + 1);
}

TEST_CASE("sequences keep equal seeds apart") {
  toy::Target target(16, 0);
  const auto text = [&](std::uint64_t seed, std::uint32_t sequence) {
    return plain(target, {.max_tokens = 30,
                          .sampling = {.temperature = 1.0f},
                          .seed = seed,
                          .sequence = sequence})
        .tokens;
  };
  CHECK(text(7, 1) == text(7, 1));
  CHECK(text(7, 1) != text(7, 2));
  CHECK(text(7, 1) != text(8, 1));
}

TEST_CASE("stop strings need somebody who knows the text") {
  WordlessTarget target;
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  CHECK_THROWS_AS(decoder.generate(kPrompt, {.stop = {"a"}}), fd::Error);
  const auto result = decoder.generate(
      kPrompt, {.stop = {"a"}, .piece = [](fd::TokenId) { return std::string("a"); }});
  CHECK(result.finish_reason == fd::FinishReason::kStop);
  CHECK(result.tokens.size() == 1);
}

namespace {

/// Breaks the contract in the way it is told.
struct BadDrafter : fd::NoDraft {
  fd::TokenId token = 0;
  int nodes = 0;
  int max_depth() const noexcept { return 4; }
  void propose(const fd::Context&, fd::Limit, fd::DraftTree& draft) const {
    for (int i = 0; i < nodes; ++i) draft.extend(token);
  }
};

}  // namespace

TEST_CASE("a drafter that breaks its contract is refused, and the decoder survives") {
  toy::Target target(16);
  for (const auto& [token, nodes] :
       {std::pair<fd::TokenId, int>{16, 2}, {-1, 1}, {3, 5}, {3, 80}}) {
    BadDrafter bad;
    bad.token = token;
    bad.nodes = nodes;
    fd::Decoder decoder{target, toy::TokenCache{}, bad, fd::Greedy{}};
    CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 10}), fd::Error);
    CHECK(decoder.cache().staged() == 0);
  }
}

TEST_CASE("a drafter that is said to make chains and makes a tree is refused") {
  struct ForkingDrafter : fd::NoDraft {
    int max_depth() const noexcept { return 4; }
    void propose(const fd::Context&, fd::Limit limit, fd::DraftTree& draft) const {
      if (limit.nodes < 2) return;  // a draft that is too large is refused anyway
      draft.add(0, 1);
      draft.add(0, 2);
    }
  };
  toy::Target target(16);
  fd::Decoder decoder{target, toy::TokenCache{}, ForkingDrafter{}, fd::Greedy{}};
  CHECK_THROWS_AS(decoder.generate(kPrompt, {.max_tokens = 10}), fd::Error);
}

TEST_CASE("a decoder's own tokens are a prompt like any other") {
  for (const int n_draft : {int{fd::Options::kAutomatic}, 16}) {
    CAPTURE(n_draft);
    const fd::Options options{.max_tokens = 30, .n_draft = n_draft};
    toy::Target target(16, 0);
    fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
    decoder.generate(kPrompt, {.max_tokens = 20, .n_draft = n_draft});
    const std::vector<fd::TokenId> text(decoder.tokens().begin(), decoder.tokens().end());
    const auto expected = plain(target, {.max_tokens = 30}, text).tokens;
    CHECK(decoder.generate(decoder.tokens(), options).tokens == expected);
    decoder.generate(text, {.max_tokens = 10, .n_draft = n_draft});
    CHECK(decoder.generate(decoder.tokens().first(text.size()), options).tokens == expected);
    const std::vector<fd::TokenId> end = {text.end() - 7, text.end()};
    CHECK(decoder.generate(decoder.tokens().subspan(text.size() - 7, 7), options).tokens ==
          plain(target, {.max_tokens = 30}, end).tokens);
  }
}

TEST_CASE("what the controller of a single drafter learned is handed on to another decoder") {
  toy::Target target(8, 1, 1.0);
  fd::Decoder first{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  first.generate(kPrompt, {.max_tokens = 200});
  const fd::ControllerState learned = first.controlled().learned();
  CHECK(learned.drafters.at(0).asked > 10);
  fd::Decoder second{target, toy::TokenCache{}, fd::PromptLookup{}, fd::Greedy{}};
  CHECK(second.controlled().learned() != learned);
  second.controlled().learn_from(learned);
  CHECK(second.controlled().learned() == learned);
}

TEST_CASE("an infinite logit is refused at every temperature") {
  struct Damaged : toy::Target {
    using toy::Target::Target;
    void forward(std::span<fd::Request<toy::TokenCache>> requests) {
      toy::Target::forward(requests);
      for (auto& request : requests) {
        if (request.want.rows == fd::RowNeed::kNothing) continue;
        std::vector<float> row(16, 1.0f);
        row[3] = std::numeric_limits<float>::infinity();
        for (int i = 0; i < request.count; ++i) request.scores->set_row(i, row);
      }
    }
  };
  Damaged target(16, 0);
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float repeat : {1.0f, 1.5f}) {
      fd::Decoder decoder{target, toy::TokenCache{}, fd::PromptLookup{}, fd::SampleAndMatch{}};
      try {
        decoder.generate(kPrompt,
                         {.sampling = {.temperature = temperature, .repeat_penalty = repeat}});
        FAIL("made text");
      } catch (const fd::Error& error) {
        CHECK(error.code() == fd::ErrorCode::kInvalidLogits);
      }
    }
  }
}
