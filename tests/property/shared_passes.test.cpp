// Sequences of different lengths, drafters and acceptance rules take their turns in shared passes
// of one target and one draft model. Each writes the text that it writes alone, to the bit.

#include <foredraft/models.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/spelled_codec.hpp"
#include "support/tiny_pair.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// What is compared: tokens, and the rows they were taken from.
struct Text {
  void add(const fd::Emitted& emitted) {
    tokens.push_back(emitted.token);
    logprobs.push_back(*emitted.logprobs);
    shown += emitted.text;
  }
  friend bool operator==(const Text&, const Text&) = default;

  Tokens tokens;
  std::vector<fd::Logprobs> logprobs;
  std::string shown;
};

// What a text pays for its part of a pass: so much that what clocks say beside it is nothing.
constexpr double kTargetSeconds = 1000.0, kDraftSeconds = 20.0;

/// A text that is written beside others.
template <typename C>
struct Writer {
  virtual ~Writer() = default;
  virtual bool begin_turn() = 0;  // false: the text is over
  virtual std::optional<fd::Request<C>> draft_request() = 0;
  virtual void advance() = 0;
  virtual fd::Request<C> request() = 0;
  virtual void finish_turn() = 0;
  virtual Text alone() = 0;

  Text text;
  std::shared_ptr<fd::Call> call;
};

/// @param MakeD makes the drafter, one for the text beside others and one for the text alone
template <typename T, typename C, typename MakeD, typename A>
struct WriterOf final : Writer<C> {
  using D = std::invoke_result_t<MakeD>;
  using Sequence = fd::Sequence<T, C, D, A>;

  WriterOf(T& model, std::function<C(T&)> make_cache, MakeD make_drafter, A own_rule,
           Tokens own_prompt, fd::Options own_options)
      : target(model),
        cache(std::move(make_cache)),
        drafter(std::move(make_drafter)),
        rule(own_rule),
        prompt(std::move(own_prompt)),
        options(std::move(own_options)),
        sequence(target, cache(target), drafter(), rule) {
    sequence.begin(prompt);
    this->call = std::make_shared<fd::Call>(options, target, rule);
  }

  bool begin_turn() override {
    const auto emit = [this](const fd::Emitted& emitted) { this->text.add(emitted); };
    sequence.deliver(emit);
    if (sequence.take_end(*this->call)) return false;
    if (sequence.reading()) {
      reader.emplace(sequence, this->call);
    } else {
      writer.emplace(sequence, this->call, fd::Drafting::kInSteps);
    }
    return true;
  }
  std::optional<fd::Request<C>> draft_request() override {
    if constexpr (fd::SteppedDrafter<D>) {
      if (writer) return writer->draft_request();
    }
    return std::nullopt;
  }
  void advance() override {
    if constexpr (fd::SteppedDrafter<D>) writer->advance(kDraftSeconds);
  }
  fd::Request<C> request() override { return reader ? reader->request() : writer->request(); }
  void finish_turn() override {
    reader ? reader->finish() : writer->finish(kTargetSeconds);
    reader.reset();
    writer.reset();
  }
  Text alone() override {
    Text whole;
    fd::Decoder decoder{target, cache(target), drafter(), rule};
    decoder.generate(prompt, options, [&](const fd::Emitted& emitted) { whole.add(emitted); });
    return whole;
  }

  T& target;
  std::function<C(T&)> cache;
  MakeD drafter;
  A rule;
  Tokens prompt;
  fd::Options options;
  Sequence sequence;
  std::optional<fd::PromptTurn<Sequence>> reader;
  std::optional<fd::Turn<Sequence>> writer;
};

/// Greatest number of requests that a pass of each model had.
struct Shared {
  std::size_t target = 0;
  std::size_t draft = 0;
  bool mixed = false;  // a pass read a prompt and verified a draft
};

/// All that these models can be asked for, next to each other.
template <typename T, typename C>
struct Writers {
  template <typename MakeD, typename A>
  void add(MakeD drafter, A rule, std::size_t n_prompt, fd::Options options) {
    Tokens prompt;
    for (std::size_t i = 0; i < n_prompt; ++i)
      prompt.push_back(static_cast<fd::TokenId>((i * i + 3 * i + n_prompt) % 11));
    options.logprobs = 2;
    options.ignore_end = true;
    all.push_back(std::make_unique<WriterOf<T, C, MakeD, A>>(
        target, cache, std::move(drafter), rule, std::move(prompt), std::move(options)));
  }

  void add_all() {
    const auto none = [] { return fd::NoDraft{}; };
    const auto lookup = [] { return fd::PromptLookup({.min_match = 1}); };
    const auto chain = [this] { return fd::ModelDrafter<T, C>(draft, cache(draft), {}); };
    const auto tree = [this] {
      return fd::ModelTreeDrafter<T, C>(draft, cache(draft), {.branching = {3, 2, 1}});
    };
    add(none, fd::Greedy{}, 3, {.max_tokens = 30, .n_draft = 8});
    add(lookup, fd::Greedy{}, 40, {.max_tokens = 50, .n_draft = 6, .prefill_block = 7});
    add(chain, fd::SampleAndMatch{}, 17,
        {.max_tokens = 45,
         .n_draft = 4,
         .sampling = {.temperature = 1.0f},
         .seed = 5,
         .prefill_block = 4});
    add(tree, fd::RejectionSampling{}, 5,
        {.max_tokens = 60, .n_draft = 8, .sampling = {.temperature = 1.0f}, .seed = 6});
    add(chain, fd::BlockVerification{}, 25,
        {.max_tokens = 20, .n_draft = 3, .sampling = {.temperature = 0.8f, .top_k = 9}, .seed = 7});
    add(tree, fd::Greedy{}, 1, {.max_tokens = 40, .n_draft = 8});
    // Those that choose: how much is drafted, and who drafts.
    const auto controlled = [chain] { return fd::Controlled(chain()); };
    const auto several = [lookup, tree] {
      return fd::Chain<fd::Shape::kTree, C>{lookup(), tree()};
    };
    add(controlled, fd::RejectionSampling{}, 6,
        {.max_tokens = 40, .n_draft = 5, .sampling = {.temperature = 0.9f}, .seed = 10});
    add(controlled, fd::SampleAndMatch{}, 14,
        {.max_tokens = 60, .sampling = {.temperature = 0.8f}, .seed = 11});
    add(several, fd::Greedy{}, 10, {.max_tokens = 60});
  }

  /// A turn of each text that is not over, with one pass for each level of their drafts and one of
  /// the target.
  /// @return whether there was any
  bool round(Shared& shared) {
    std::vector<Writer<C>*> turns;
    for (const auto& writer : all) {
      if (writer->begin_turn()) turns.push_back(writer.get());
    }
    if (turns.empty()) return false;
    for (;;) {
      std::vector<fd::Request<C>> requests;
      std::vector<Writer<C>*> drafting;
      for (Writer<C>* turn : turns) {
        const auto request = turn->draft_request();
        if (!request) continue;
        requests.push_back(*request);
        drafting.push_back(turn);
      }
      if (requests.empty()) break;
      draft.forward(std::span(requests));
      shared.draft = std::max(shared.draft, requests.size());
      for (Writer<C>* turn : drafting) turn->advance();
    }
    std::vector<fd::Request<C>> requests;
    for (Writer<C>* turn : turns) requests.push_back(turn->request());
    target.forward(std::span(requests));
    shared.target = std::max(shared.target, requests.size());
    const auto of_prompt = [](const auto& r) { return r.want.rows == fd::RowNeed::kNothing; };
    const auto of_draft = [&](const auto& r) { return r.count > 1 && !of_prompt(r); };
    shared.mixed |= std::any_of(requests.begin(), requests.end(), of_prompt) &&
                    std::any_of(requests.begin(), requests.end(), of_draft);
    for (Writer<C>* turn : turns) turn->finish_turn();
    return true;
  }

  /// The turns of a round, dropped: some before the first pass of their draft, some behind it.
  void drop_round(bool behind) {
    for (const auto& writer : all) {
      writer->begin_turn();
      const auto request = writer->draft_request();
      if (!request || !behind) continue;
      fd::forward_one(draft, *request);
      writer->advance();
    }
  }

  /// @param drafting  texts whose drafters run the draft model
  /// @param shared  by the rounds so far
  void check(std::size_t drafting, Shared shared = {}) {
    while (round(shared)) {
    }
    CHECK(shared.target == all.size());
    CHECK(shared.draft == drafting);
    CHECK(shared.mixed);
    std::int64_t accepted = 0, drafted = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CHECK(all[i]->text.tokens.size() > 10);
      CHECK(all[i]->text == all[i]->alone());
      accepted += all[i]->call->stats.accepted;
      drafted += all[i]->call->stats.drafted;
    }
    CHECK(accepted > 0);
    CHECK(accepted < drafted);
  }

  T& target;
  T& draft;
  std::function<C(T&)> cache;  // makes an empty one
  std::vector<std::unique_ptr<Writer<C>>> all = {};
};

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;

}  // namespace

TEST_CASE("texts that share passes of a real model are those written alone") {
  TinyPair models;
  Writers<Model, Cache> writers{models.target, models.draft,
                                [](Model& model) { return Cache(model.shape(), 200); }};
  writers.add_all();
  writers.check(7);
}

TEST_CASE("texts that share passes of an engine of one's own are those written alone") {
  static_assert(fd::SteppedDrafter<fd::Controlled<fd::ModelDrafter<toy::Target, toy::TokenCache>>>);
  using Translated = fd::HeterogeneousDrafter<toy::Target, toy::TokenCache>;
  static_assert(fd::SteppedDrafter<Translated>);
  toy::Target target(11, 0, 6.0), draft(11, 2, 6.0);
  Writers<toy::Target, toy::TokenCache> writers{target, draft,
                                                [](toy::Target&) { return toy::TokenCache(200); }};
  writers.add_all();
  // The draft model reads other tokens.
  const auto translated = [&draft](fd::Translation translation) {
    return [&draft, translation] {
      return Translated{draft,
                        toy::TokenCache(400),
                        spelled_codec({"a", "b", "c", "d", "ab", "e", "f", "cd", "g", "h", "ef"}),
                        spelled_codec({"h", "a", "bc", "b", "g", "c", "d", "de", "e", "f", "fg"}),
                        {.translation = translation}};
    };
  };
  writers.add(translated(fd::Translation::kIntersection), fd::RejectionSampling{}, 9,
              {.max_tokens = 40, .n_draft = 4, .sampling = {.temperature = 1.0f}, .seed = 8});
  writers.add(translated(fd::Translation::kRealignment), fd::Greedy{}, 12,
              {.max_tokens = 50, .n_draft = 5});
  Shared shared;
  SECTION("at once") {}
  SECTION("behind turns that were dropped") {
    for (int round = 0; round < 8; ++round) {
      writers.drop_round(round % 2 != 0);
      writers.round(shared);
    }
  }
  writers.check(9, shared);
}

TEST_CASE("turns that are dropped and taken again leave the texts as they were") {
  TinyPair models;
  Writers<Model, Cache> writers{models.target, models.draft,
                                [](Model& model) { return Cache(model.shape(), 200); }};
  writers.add_all();
  Shared shared;
  for (int round = 0; round < 8; ++round) {
    writers.drop_round(round % 2 != 0);
    writers.round(shared);
  }
  while (writers.round(shared)) {
  }
  for (const auto& writer : writers.all) CHECK(writer->text == writer->alone());
}
