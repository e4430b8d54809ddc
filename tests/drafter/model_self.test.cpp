#include <foredraft/drafter/model_self.hpp>

#include <string>
#include <utility>
#include <vector>

#include <foredraft/models.hpp>

#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/throws.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Model = fd::Model<fd::Cpu>;
using Layers = std::vector<int>;
template <typename C>
using Self = fd::SelfDrafter<fd::Cpu, C>;

const Tokens kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};

static_assert(fd::SteppedDrafter<Self<fd::LinearCache<fd::f16>>>);

TinyModel tiny_of(const char* family) {
  TinyModel tiny;
  tiny.family = family;
  tiny.d_head = 64;  // as q8_0 wants it
  return tiny;
}

template <typename D, typename C, typename A = fd::Greedy>
fd::Result run(Model& target, C cache, D drafter, const fd::Options& options, A rule = {}) {
  fd::Decoder decoder{target, std::move(cache), std::move(drafter), rule};
  return decoder.generate(kPrompt, options);
}

/// With the first layer alone it drafts what a model of that layer drafts, and the text is the
/// target's.
template <typename C>
void check_cut_short(TinyPair& pair, Drafted& drafts) {
  const auto cache = [](Model& model) { return C{model.shape(), 256}; };
  for (const int depth : {1, 3, 7, 16}) {
    CAPTURE(depth);
    fd::Options options{.max_tokens = 96, .n_draft = 0, .ignore_end = true};
    const Tokens plain = run(pair.target, cache(pair.target), fd::NoDraft{}, options).tokens;
    options.n_draft = depth;
    const auto self =
        run(pair.target, cache(pair.target), Self<C>{pair.target, Layers{0}}, options);
    const auto other = run(pair.target, cache(pair.target),
                           fd::ModelDrafter<Model, C>{pair.draft, cache(pair.draft), {}}, options);
    CHECK(self.tokens == plain);
    CHECK(self.stats.drafted == other.stats.drafted);
    CHECK(self.stats.accepted == other.stats.accepted);
    drafts.add(self);
  }
}

}  // namespace

TEST_CASE("a target drafts with its first layer what a model of that layer drafts") {
  for (const char* family : {"llama", "gemma3"}) {
    CAPTURE(family);
    TinyPair pair(tiny_of(family));
    Drafted drafts;
    check_cut_short<fd::LinearCache<fd::f16>>(pair, drafts);
    check_cut_short<fd::LinearCache<fd::q8_0>>(pair, drafts);
    check_cut_short<fd::RotatingCache<float>>(pair, drafts);
    check_cut_short<fd::HybridCache<fd::f16>>(pair, drafts);
    CHECK(drafts.both());
  }
}

TEST_CASE("a target that drafts with all of its layers is never wrong") {
  TinyPair pair;
  Model& target = pair.target;
  const Layers layers{0, 1};
  // docs/design/drafting-with-own-layers.md: begin
  auto cache = target.make_cache();
  fd::SelfDrafter drafter{target, cache, layers};  // such as {0, 1, 2, 3, 4, 5, 6, 7}
  fd::Decoder decoder{target, std::move(cache), std::move(drafter), fd::Greedy{}};
  // docs/design/drafting-with-own-layers.md: end
  const auto result =
      decoder.generate(kPrompt, {.max_tokens = 200, .n_draft = 5, .ignore_end = true});
  CHECK(result.stats.drafted > 100);
  CHECK(result.stats.accepted == result.stats.drafted);
}

TEST_CASE("a seed's text is the same, drafted by the target itself or not") {
  TinyPair pair;
  fd::Options options{.max_tokens = 96,
                      .n_draft = 0,
                      .sampling = {.temperature = 1.0f},
                      .seed = 7,
                      .ignore_end = true};
  using C = fd::HybridCache<fd::f16>;
  const auto plain =
      run(pair.target, pair.target.make_cache(), fd::NoDraft{}, options, fd::SampleAndMatch{});
  options.n_draft = 4;
  const auto drafted = run(pair.target, pair.target.make_cache(), Self<C>{pair.target, Layers{0}},
                           options, fd::SampleAndMatch{});
  CHECK(drafted.tokens == plain.tokens);
  CHECK(drafted.stats.drafted > 0);
}

TEST_CASE("in a chain, with a controller and steps of a conversation, it has nothing to read") {
  TinyPair pair;
  using C = fd::HybridCache<fd::f16>;
  fd::Decoder plain{pair.target, pair.target.make_cache(), fd::NoDraft{}, fd::Greedy{}};
  fd::Decoder self{pair.target, pair.target.make_cache(),
                   fd::Chain{fd::PromptLookup{}, Self<C>{pair.target, Layers{0}},
                             Self<C>{pair.target, Layers{1}}},
                   fd::Greedy{}};
  Tokens text = kPrompt;
  for (int turn = 0; turn < 3; ++turn) {
    const fd::Options options{
        .max_tokens = 48, .n_draft = turn == 0 ? 3 : fd::Options::kAutomatic, .ignore_end = true};
    const auto truth = plain.generate(text, options).tokens;
    const auto drafted = self.generate(text, options);
    CHECK(drafted.tokens == truth);
    CHECK(drafted.speculation.find("failed") == std::string::npos);
    text.insert(text.end(), truth.begin(), truth.end());
    text.push_back(static_cast<fd::TokenId>(turn));
  }
  CHECK(self.drafter().backlog(static_cast<int>(text.size())) == 0);
  // Back to an earlier text, in another decoder, which has moved.
  const auto snapshot = self.snapshot();
  const auto next = self.resume({.max_tokens = 20, .ignore_end = true}).tokens;
  fd::Decoder made{pair.target, pair.target.make_cache(),
                   fd::Chain{fd::PromptLookup{}, Self<C>{pair.target, Layers{0}},
                             Self<C>{pair.target, Layers{1}}},
                   fd::Greedy{}};
  made.generate(kPrompt, {.max_tokens = 9, .n_draft = 2, .ignore_end = true});
  fd::Decoder moved = std::move(made);
  moved.restore(snapshot);
  CHECK(moved.resume({.max_tokens = 20, .ignore_end = true}).tokens == next);
}

TEST_CASE("a draft in steps is that at once") {
  TinyPair pair;
  using C = fd::LinearCache<fd::f16>;
  using Sequence = fd::Sequence<Model, C, Self<C>, fd::Greedy>;
  const fd::Options options{.max_tokens = 60, .n_draft = 4, .ignore_end = true};
  const auto write = [&](fd::Drafting drafting) {
    Sequence sequence(pair.target, C{pair.target.shape(), 256}, Self<C>{pair.target, Layers{0}},
                      {});
    sequence.begin(kPrompt);
    auto call = std::make_shared<fd::Call>(options, pair.target, fd::Greedy{});
    Tokens text;
    for (;;) {
      const auto emit = [&](const fd::Emitted& emitted) { text.push_back(emitted.token); };
      sequence.deliver(emit);
      if (sequence.take_end(*call)) return std::pair(text, call->stats.accepted);
      if (sequence.reading()) {
        fd::PromptTurn turn(sequence, call);
        forward_one(pair.target, turn.request());
        turn.finish();
        continue;
      }
      fd::Turn turn(sequence, call, drafting);
      while (auto request = turn.draft_request()) {
        forward_one(sequence.drafter().part(), *request);
        turn.advance();
      }
      forward_one(pair.target, turn.request());
      turn.finish();
    }
  };
  const auto at_once = write(fd::Drafting::kAtOnce);
  CHECK(at_once.second > 0);
  CHECK(write(fd::Drafting::kInSteps) == at_once);
}

TEST_CASE("a drafter for another cache is refused when the decoder is made, in a chain too") {
  TinyPair pair;
  using Wrong = Self<fd::LinearCache<float>>;
  CHECK(code_of([&] {
          fd::Decoder{pair.target, pair.target.make_cache(), Wrong{pair.target, Layers{0}},
                      fd::Greedy{}};
        }) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of([&] {
          fd::Decoder{pair.target, pair.target.make_cache(),
                      fd::Chain{fd::PromptLookup{}, Wrong{pair.target, Layers{0}}}, fd::Greedy{}};
        }) == fd::ErrorCode::kInvalidOption);
  // Nor may another target take its layers for its own.
  fd::SelfDrafter<fd::Cpu, fd::HybridCache<fd::f16>> of_another{pair.draft, Layers{0}};
  CHECK(code_of([&] {
          fd::Decoder{pair.target, pair.target.make_cache(), std::move(of_another), fd::Greedy{}};
        }) == fd::ErrorCode::kInvalidOption);
  // Who asks it without a loop has to hand the cache over.
  Wrong alone{pair.target, Layers{0}};
  fd::Context context;
  context.tokens = kPrompt;
  fd::DraftTree draft;
  draft.reset(kPrompt.back());
  CHECK(code_of([&] { alone.propose(context, {.depth = 1, .nodes = 1}, draft); }) ==
        fd::ErrorCode::kInvalidOption);
}

TEST_CASE("a round that fails while it is drafted leaves nothing behind") {
  TinyPair pair;
  using C = fd::LinearCache<fd::f16>;
  const fd::Options options{.max_tokens = 40, .n_draft = 3, .ignore_end = true};
  const Tokens truth =
      run(pair.target, C{pair.target.shape(), 256}, Self<C>{pair.target, Layers{0}}, options)
          .tokens;
  /// Drafts like another one, and then throws.
  struct Failing : Self<C> {
    using Self<C>::SelfDrafter;
    void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
      Self<C>::propose(context, limit, draft);
      if (++calls % 3 == 0) throw fd::Error(fd::ErrorCode::kIo, "a failure", "none", "");
    }
    int calls = 0;
  };
  fd::Sequence<Model, C, Failing, fd::Greedy> sequence(pair.target, C{pair.target.shape(), 256},
                                                       Failing{pair.target, Layers{0}}, {});
  sequence.begin(kPrompt);
  auto call = std::make_shared<fd::Call>(options, pair.target, fd::Greedy{});
  Tokens text;
  const auto emit = [&](const fd::Emitted& emitted) { text.push_back(emitted.token); };
  int failures = 0;
  for (bool ended = false; !ended;) {
    try {
      REQUIRE(fd::prefill(sequence, call));
      fd::generate(sequence, call, emit);
      ended = true;
    } catch (const fd::Error&) {
      ++failures;
      Tokens longer(sequence.tokens().begin(), sequence.tokens().end());
      if (failures == 2) sequence.begin(longer);  // whatever was staged is gone
    }
  }
  CHECK(failures > 2);
  CHECK(text == truth);
}
