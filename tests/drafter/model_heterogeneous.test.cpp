#include <foredraft/drafter/model_heterogeneous.hpp>

#include <foredraft/foredraft.hpp>
#include <foredraft/testing/law.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/spelled_codec.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

namespace {

/// Writes one text over and over, in the longest of its pieces that come next. What it says depends
/// on the bytes before, not on how they were cut.
class Writer {
 public:
  static constexpr bool row_exact = true;

  Writer(std::vector<std::string> pieces, std::string text)
      : pieces_(std::move(pieces)), text_(std::move(text)) {}

  int vocab_size() const { return static_cast<int>(pieces_.size()); }
  fd::TextCodec codec() const { return spelled_codec(pieces_); }
  bool is_end(fd::TokenId) const { return false; }
  std::string piece(fd::TokenId id) const { return pieces_[fd::idx(id)]; }

  void forward(std::span<fd::Request<toy::TokenCache>> requests) {
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, vocab_size());
      for (int row = 0; row < request.count; ++row) {
        std::size_t at = 0;
        for (const fd::TokenId id : request.cache->text_of(request.first + row)) {
          at += pieces_[fd::idx(id)].size();
        }
        ++rows;
        std::string next;
        while (next.size() < 16) next += text_[(at + next.size()) % text_.size()];
        std::vector<float> logits;
        for (const std::string& piece : pieces_) {
          const bool right = !piece.empty() && next.starts_with(piece);
          logits.push_back(right ? 4.0f * static_cast<float>(piece.size()) : 0.0f);
        }
        request.scores->set_row(row, logits);
      }
    }
  }

  int rows = 0;

 private:
  std::vector<std::string> pieces_;
  std::string text_;
};
static_assert(fd::Target<Writer, toy::TokenCache>);

using Draft = fd::HeterogeneousDrafter<Writer, toy::TokenCache>;
using HashDraft = fd::HeterogeneousDrafter<toy::Target, toy::TokenCache>;

const std::string kText = "the cat and the dog. ";
const std::vector<std::string> kTarget{"t", "h",   "e",  " ",  "c",  "a",   "n",  "d",    "o", "g",
                                       ".", "the", " c", "at", "an", "dog", ". ", " the", "d."};
const std::vector<std::string> kDraft{"a", "c", "d",  ".",  "e",   "g",  "h",    "n",  "o",
                                      "t", " ", "th", "e ", "cat", "do", " and", "g. "};

struct Pair {
  Writer target{kTarget, kText};
  Writer draft{kDraft, kText};
  Draft drafter(fd::HeterogeneousSettings settings = {}) {
    return Draft{draft, toy::TokenCache{}, target.codec(), draft.codec(), std::move(settings)};
  }
};

constexpr fd::Translation kBoth[] = {fd::Translation::kIntersection, fd::Translation::kRealignment};

}  // namespace

TEST_CASE(
    "a model of another vocabulary that thinks alike is seldom wrong, by either translation") {
  for (const fd::Translation translation : kBoth) {
    Pair pair;
    const Tokens prompt = pair.target.codec().encode(kText);
    fd::Decoder plain{pair.target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
    const auto truth = plain.generate(prompt, {.max_tokens = 300});
    for (const int depth : {1, 2, 3, 7, 16}) {
      CAPTURE(static_cast<int>(translation), depth);
      fd::Decoder decoder{pair.target, toy::TokenCache{},
                          pair.drafter({.translation = translation}), fd::Greedy{}};
      const auto result = decoder.generate(prompt, {.max_tokens = 300, .n_draft = depth});
      CHECK(result.tokens == truth.tokens);
      if (translation == fd::Translation::kRealignment && depth > 2) {
        // Wrong only where the draft ended within a token.
        CHECK(result.stats.acceptance_rate() > 0.6);
        CHECK(result.stats.rounds < truth.stats.rounds / 2);
      }
      CHECK(result.stats.accepted > 20);
    }
  }
}

TEST_CASE("tokens that only one of the two has are drafted by realignment alone") {
  Writer target({"a", "b", "c", "abc"}, "abc");
  Writer draft({"a", "b", "c", "ab"}, "abc");
  const auto accepted = [&](fd::Translation translation) {
    fd::Decoder decoder{
        target, toy::TokenCache{},
        Draft{
            draft, toy::TokenCache{}, target.codec(), draft.codec(), {.translation = translation}},
        fd::Greedy{}};
    const auto result = decoder.generate(Tokens{3}, {.max_tokens = 60, .n_draft = 6});
    CHECK(result.tokens == Tokens(60, 3));
    return result.stats.accepted;
  };
  CHECK(accepted(fd::Translation::kIntersection) == 0);
  CHECK(accepted(fd::Translation::kRealignment) > 30);
  CHECK(accepted(fd::Translation::kAuto) > 30);
}

TEST_CASE("rows of a draft that came true are kept, not computed again") {
  Pair pair;
  const Tokens prompt = pair.target.codec().encode(kText);
  fd::Decoder decoder{pair.target, toy::TokenCache{}, pair.drafter(), fd::Greedy{}};
  const auto result = decoder.generate(prompt, {.max_tokens = 400, .n_draft = 6});
  // Each byte of the text is a part of one row, but for what was drafted in vain or spelled anew.
  std::size_t bytes = 0;
  for (const fd::TokenId token : decoder.tokens()) bytes += pair.target.piece(token).size();
  CHECK(pair.draft.rows < static_cast<int>(bytes));
  CHECK(result.stats.drafted > 100);
  // What was drafted right is not to be read again, and a controller is told so.
  CHECK(*decoder.drafter().backlog(static_cast<int>(decoder.tokens().size())) <= 4);
}

TEST_CASE("behind its end token a draft model writes nothing more") {
  Writer target({"a", "b", "<", "/", "s", ">"}, "ab");
  Writer draft({"a", "b", "</s>"}, "ab</s>");
  fd::TextCodec own = draft.codec();
  own.is_text = [](fd::TokenId id) { return id != 2; };
  Draft drafter{draft, toy::TokenCache{}, target.codec(), own, {}};
  fd::Philox rng(1);
  const fd::SamplingOptions greedy;
  const Tokens text{0};
  for (int round = 0; round < 2; ++round) {  // and in the next round it drafts again
    fd::DraftTree tree;
    tree.reset(0);
    drafter.propose({text, {}, greedy, false, &rng, 6}, {.depth = 9, .nodes = 9}, tree);
    REQUIRE(tree.drafted() == 1);
    CHECK(tree.token(1) == 1);
  }
}

TEST_CASE("a seed has one text under match, whatever is drafted in whichever vocabulary") {
  for (const int order : {1, 2}) {
    toy::Target target(11, order, 2.0), draft(9, order, 2.0, 3);
    const fd::TextCodec own =
        spelled_codec({"a", "b", "c", "d", "e", "f", "g", "h", "ab", "cd", "aa"});
    const fd::TextCodec other = spelled_codec({"h", "g", "f", "e", "d", "c", "b", "a", "dc"});
    const fd::Options options{.max_tokens = 200, .sampling = {.temperature = 1.0f}, .seed = 9};
    fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
    const Tokens truth = plain.generate(Tokens{1, 2, 8}, options).tokens;
    for (const fd::Translation translation : kBoth) {
      for (const auto sampling : {fd::DraftSampling::kAuto, fd::DraftSampling::kArgmax,
                                  fd::DraftSampling::kCoupled, fd::DraftSampling::kDrawn}) {
        fd::Options fixed = options;
        for (fixed.n_draft = 1; fixed.n_draft < 6; ++fixed.n_draft) {
          fd::Decoder decoder{target, toy::TokenCache{},
                              HashDraft{draft,
                                        toy::TokenCache{},
                                        own,
                                        other,
                                        {.translation = translation, .sampling = sampling}},
                              fd::SampleAndMatch{}};
          const auto result = decoder.generate(Tokens{1, 2, 8}, fixed);
          CHECK(result.tokens == truth);
          CHECK(result.stats.drafted > 0);
        }
      }
    }
  }
}

TEST_CASE("text drafted in another vocabulary has exactly the target's law") {
  for (const fd::Translation translation : kBoth) {
    // Not coupled: that noise is the target's sample, which this rule does not draw.
    for (const auto sampling :
         {fd::DraftSampling::kDrawn, fd::DraftSampling::kArgmax, fd::DraftSampling::kAuto}) {
      for (const fd::SamplingOptions& law : fd::testing::law_transforms()) {
        if (law.temperature == 0.0f) continue;
        for (const int depth : {1, 2}) {
          CAPTURE(static_cast<int>(translation), static_cast<int>(sampling), law.temperature,
                  law.top_k, depth);
          toy::Target target(3, 0, 1.5, 5), draft(4, 0, 1.5, 8);
          const HashDraft drafter{draft,
                                  toy::TokenCache{64},
                                  spelled_codec({"a", "b", "ba"}),
                                  spelled_codec({"b", "ab", "a", "c"}),
                                  {.translation = translation, .sampling = sampling}};
          CHECK(fd::testing::law_distance(target, drafter, fd::RejectionSampling{}, law, depth) <=
                1e-12);
        }
      }
    }
  }
}

TEST_CASE("cuts, other prompts and snapshots leave nothing of another text behind") {
  for (const fd::Translation translation : kBoth) {
    Pair pair;
    for (const int tail : {7, 20, 1000}) {
      CAPTURE(tail);
      fd::Decoder decoder{pair.target, toy::TokenCache{},
                          pair.drafter({.translation = translation, .tail = tail}), fd::Greedy{}};
      fd::Decoder plain{pair.target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
      const fd::Options options{.max_tokens = 40, .n_draft = 5};
      const Tokens whole = pair.target.codec().encode(kText + kText);
      auto snapshot = decoder.snapshot();
      for (std::size_t n = 1; n < whole.size(); ++n) {
        CAPTURE(n);
        Tokens prompt(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
        if (n % 3 == 0) prompt[n / 2] = static_cast<fd::TokenId>(n % kTarget.size());
        CHECK(decoder.generate(prompt, options).tokens == plain.generate(prompt, options).tokens);
        if (n % 4 == 1) snapshot = decoder.snapshot();
        if (n % 4 == 3) {
          decoder.restore(snapshot);
          plain.generate(Tokens(decoder.tokens().begin(), decoder.tokens().end()), options);
          const auto rest = decoder.resume(options).tokens;
          CHECK(rest == Tokens(plain.tokens().end() - static_cast<std::ptrdiff_t>(rest.size()),
                               plain.tokens().end()));
        }
      }
    }
  }
}

TEST_CASE("what was not read yet is counted in the draft model's tokens") {
  Pair pair;
  Draft drafter = pair.drafter();
  const Tokens text = pair.target.codec().encode(kText + kText + kText);
  const auto all = static_cast<int>(text.size());
  CHECK(drafter.backlog(all) == all);
  fd::Philox rng(1);
  const fd::SamplingOptions greedy;
  const auto propose = [&](const Tokens& tokens, fd::Limit limit) {
    fd::DraftTree draft;
    draft.reset(tokens.back());
    drafter.propose({tokens, {}, greedy, false, &rng, static_cast<int>(kTarget.size())}, limit,
                    draft);
    return draft.drafted();
  };
  CHECK(propose(text, {.depth = 4, .nodes = 4, .read = 10}) > 0);
  CHECK(drafter.cache().size() == 10);  // the rest was passed over
  CHECK(drafter.backlog(all) == 0);
  CHECK(propose(text, {.depth = 4, .nodes = 4}) > 0);
  CHECK(drafter.cache().size() == 10);
  drafter.truncate(0);
  CHECK(drafter.backlog(all) == all);
  drafter.restore(Draft::Snapshot());
  CHECK(drafter.backlog(all) == all);
  CHECK(propose(text, {.depth = 4, .nodes = 4}) > 0);
  CHECK(drafter.cache().size() > 10);
  CHECK(drafter.backlog(all) == 0);
  drafter.truncate(2);
  Tokens other(text.begin(), text.begin() + 2);
  CHECK(propose(other, {.depth = 3, .nodes = 3}) > 0);
  drafter.reset();
  CHECK(propose(text, {.depth = 3, .nodes = 3}) > 0);
}

TEST_CASE(
    "model heterogeneous: a draft cache that is shorter than the text stops drafting and harms "
    "nothing") {
  Pair pair;
  const Tokens prompt = pair.target.codec().encode(kText);
  fd::Decoder plain{pair.target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
  const Tokens truth = plain.generate(prompt, {.max_tokens = 60}).tokens;
  for (int capacity = 1; capacity < 40; ++capacity) {
    fd::Decoder decoder{
        pair.target, toy::TokenCache{},
        Draft{pair.draft, toy::TokenCache{capacity}, pair.target.codec(), pair.draft.codec(), {}},
        fd::Greedy{}};
    CHECK(decoder.generate(prompt, {.max_tokens = 60, .n_draft = 5}).tokens == truth);
  }
}

TEST_CASE("a draft ends behind the token that makes it improbable") {
  for (const fd::Translation translation : kBoth) {
    toy::Target draft(4, 1, 1.0);
    HashDraft drafter{draft,
                      toy::TokenCache{},
                      spelled_codec({"a", "b", "c", "d"}),
                      spelled_codec({"d", "c", "b", "a"}),
                      {.translation = translation}};
    fd::Philox rng(1);
    const fd::SamplingOptions greedy;
    const Tokens text{0, 1, 2};
    const auto drafted = [&](float stop_below) {
      fd::DraftTree tree;
      tree.reset(text.back());
      drafter.propose({text, {}, greedy, false, &rng, 4},
                      {.depth = 12, .nodes = 12, .stop_below = stop_below}, tree);
      for (fd::NodeIndex node = 1; node < tree.size(); ++node) {
        if (stop_below > 0) CHECK(tree.confidence(node) > 0);
      }
      return tree.drafted();
    };
    CHECK(drafted(0) == 12);
    CHECK(drafted(0.9f) == 1);
    CHECK(drafted(0.05f) > 1);
    CHECK(drafted(0.05f) < 12);
  }
}

TEST_CASE("vocabularies without a token in common, and foreign targets, are refused") {
  toy::Target model(2);
  const auto make = [&](std::vector<std::string> target, std::vector<std::string> draft) {
    return HashDraft{model,
                     toy::TokenCache{},
                     spelled_codec(std::move(target)),
                     spelled_codec(std::move(draft)),
                     {}};
  };
  CHECK_THROWS_AS(make({"a", ""}, {"b", ""}), fd::Error);
  const HashDraft drafter = make({"a", "b"}, {"b", "c"});
  const auto info = [](std::vector<std::string> pieces) {
    const int n = static_cast<int>(pieces.size());
    return fd::TargetInfo{.n_vocab = n,
                          .vocabulary = {n, n, spelled_codec(std::move(pieces)).piece}};
  };
  CHECK_NOTHROW(drafter.attach(info({"a", "b"})));
  CHECK_NOTHROW(drafter.attach({.n_vocab = 2}));
  CHECK_THROWS_AS(drafter.attach(info({"b", "a"})), fd::Error);
  CHECK_THROWS_AS(drafter.attach(info({"a", "b", "c"})), fd::Error);
  CHECK_THROWS_AS(HashDraft(model, toy::TokenCache{}, spelled_codec({"a"}), spelled_codec({"a"}),
                            {.law = fd::SamplingOptions{.temperature = -1.0f}}),
                  fd::Error);
}
