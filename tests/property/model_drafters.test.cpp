// Drafters with a model, as chains and trees, under a controller: the text is the plain one, and
// sampled text has the target's law.

#include <foredraft/foredraft.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/models.hpp>

#include "property/controlled_texts.hpp"
#include "property/law_setup.hpp"
#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/spelled_codec.hpp"
#include "support/tiny_pair.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using How = fd::DraftSampling;
using fd::Shape;

/// Thinks like the target of check_controlled_texts, but at each third place. A token of its own
/// stands for one of the target's, or for several in a row, which it reads and never writes.
class Similar {
 public:
  static constexpr bool row_exact = true;

  explicit Similar(std::vector<Tokens> meanings) : meanings_(std::move(meanings)) {}

  int vocab_size() const { return static_cast<int>(meanings_.size()); }
  bool is_end(fd::TokenId) const { return false; }
  std::string piece(fd::TokenId id) const {
    std::string piece;
    for (const fd::TokenId token : meanings_[fd::idx(id)]) piece += target_.piece(token);
    return piece;
  }
  fd::TextCodec codec() const {
    std::vector<std::string> pieces;
    for (fd::TokenId id = 0; id < vocab_size(); ++id) pieces.push_back(piece(id));
    return spelled_codec(pieces);
  }
  void forward(std::span<fd::Request<toy::TokenCache>> requests) const {
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, vocab_size());
      for (int row = 0; row < request.count; ++row) {
        Tokens text;
        for (const fd::TokenId id : request.cache->text_of(request.first + row)) {
          const Tokens& meaning = meanings_[fd::idx(id)];
          text.insert(text.end(), meaning.begin(), meaning.end());
        }
        const auto& model = text.size() % 3 == 0 ? other_ : target_;
        const auto thought = model.logits_after(text);
        std::vector<float> logits;
        for (const Tokens& meaning : meanings_) {
          logits.push_back(meaning.size() == 1 ? thought[fd::idx(meaning[0])] : -100.0f);
        }
        request.scores->set_row(row, logits);
      }
    }
  }

 private:
  std::vector<Tokens> meanings_;
  toy::Target target_{12, 1, 3.0};
  toy::Target other_{12, 1, 3.0, 8};
};

/// The target's own vocabulary.
std::vector<Tokens> same() {
  std::vector<Tokens> meanings;
  for (fd::TokenId token = 0; token < 12; ++token) meanings.push_back({token});
  return meanings;
}
/// Other numbers, and words that the target has to spell.
std::vector<Tokens> mirrored() {
  std::vector<Tokens> meanings{{3, 1}, {1, 4}, {7, 7, 2}};
  for (fd::TokenId token = 12; token-- > 0;) meanings.push_back({token});
  return meanings;
}

/// Whatever a controller makes of deeper drafts of `make()`, texts are the plain ones.
template <Shape S, typename T, typename MakeCache, typename Make>
void check_deep_drafts(T& target, const MakeCache& cache, const Make& make) {
  fd::Decoder plain{target, cache(), fd::NoDraft{}, fd::SampleAndMatch{}};
  for (const auto costs : {given::Costs::kNone, given::Costs::kSenseless}) {
    CAPTURE(static_cast<int>(costs));
    given::reading = 0;
    given::Chain<S> chain(costs);
    chain.use_clock(&given::ticking<20>);
    chain.add("model", make());
    fd::Decoder decoder{target, cache(), std::move(chain), fd::SampleAndMatch{}};
    Drafted drafted;
    std::set<int> depths;
    for (int request = 0; request < 6; ++request) {
      const Tokens prompt{request, 3, 11 - request, 1, 4};
      fd::Options options{.max_tokens = 80, .seed = 7, .ignore_end = true};
      options.sampling.temperature = request % 2 == 0 ? 0.0f : 0.7f;
      const auto truth = plain.generate(prompt, options).tokens;
      options.observer = [&](const fd::RoundEvent& round) {
        depths.insert(round.draft.max_depth());
      };
      const auto result = decoder.generate(prompt, options);
      CHECK(result.tokens == truth);
      drafted.add(result);
    }
    CHECK(drafted.both());
    CHECK(depths.size() >= 3);
  }
}

/// The same, and what check_controlled_texts asks for.
template <Shape S, typename Make>
void check(const std::string& name, const Make& make) {
  check_controlled_texts<S>(name, make);
  toy::Target target(12, 1, 3.0);
  check_deep_drafts<S>(target, [] { return toy::TokenCache(400, 64); }, make);
}

}  // namespace

TEST_CASE("a model's chain leaves the text alone, whatever a controller makes of it") {
  Similar model(same());
  for (const How how : {How::kArgmax, How::kCoupled, How::kDrawn, How::kAuto}) {
    CAPTURE(static_cast<int>(how));
    check<Shape::kChain>("model", [&]() -> fd::AnyDrafter<> {
      return fd::ModelDrafter<Similar, toy::TokenCache>(model, toy::TokenCache(400, 64),
                                                        {.sampling = how});
    });
  }
}

TEST_CASE("so does a model's tree") {
  Similar model(same());
  const auto without = fd::Siblings::kWithoutReplacement;
  for (const auto& [how, siblings] : {std::pair(How::kArgmax, without),
                                      {How::kCoupled, without},
                                      {How::kDrawn, without},
                                      {How::kDrawn, fd::Siblings::kIndependent}}) {
    CAPTURE(static_cast<int>(how), static_cast<int>(siblings));
    const fd::ModelTreeSettings settings{
        .branching = {2, 2, 1, 1}, .siblings = siblings, .sampling = how};
    check<Shape::kTree>("tree", [&]() -> fd::AnyDrafter<Shape::kTree> {
      return fd::ModelTreeDrafter<Similar, toy::TokenCache>(model, toy::TokenCache(400, 64),
                                                            settings);
    });
  }
}

TEST_CASE("so does a tree that follows what the model is sure of, and chains in its place") {
  Similar model(same());
  for (const How how : {How::kArgmax, How::kCoupled, How::kDrawn, How::kAuto}) {
    CAPTURE(static_cast<int>(how));
    const fd::ModelTreeSettings settings{.branching = std::vector<int>(16, 1),
                                         .sampling = how,
                                         .best_first = fd::BestFirstSettings{.children = 4}};
    check<Shape::kTree>("tree", [&]() -> fd::AnyDrafter<Shape::kTree> {
      return fd::ModelTreeDrafter<Similar, toy::TokenCache>(model, toy::TokenCache(400, 64),
                                                            settings);
    });
  }
}

TEST_CASE("so does a model of another vocabulary, by either translation") {
  Similar model(mirrored());
  const fd::TextCodec target = Similar(same()).codec();
  for (const auto translation : {fd::Translation::kIntersection, fd::Translation::kRealignment}) {
    for (const How how : {How::kAuto, How::kDrawn}) {
      CAPTURE(static_cast<int>(translation), static_cast<int>(how));
      check<Shape::kChain>("another vocabulary", [&]() -> fd::AnyDrafter<> {
        return fd::HeterogeneousDrafter<Similar, toy::TokenCache>(
            model, toy::TokenCache(400, 64), target, model.codec(),
            {.translation = translation, .sampling = how});
      });
    }
  }
}

TEST_CASE("so does a target that drafts with its own first layer") {
  TinyPair pair;
  using Self = fd::SelfDrafter<fd::Cpu, fd::HybridCache<fd::f16>>;
  for (const How how : {How::kArgmax, How::kDrawn}) {
    CAPTURE(static_cast<int>(how));
    check_deep_drafts<Shape::kChain>(
        pair.target, [&] { return pair.target.make_cache(); },
        [&] { return Self(pair.target, std::vector<int>{0}, {.sampling = how}); });
  }
}

namespace {

/// Seconds that forwards of any Counting took, a row each.
double counted = 0;
double counting() { return counted; }

/// A model whose rows take time, as given::Chain's clock tells it.
class Counting : public Similar {
 public:
  using Similar::Similar;
  void forward(std::span<fd::Request<toy::TokenCache>> requests) const {
    for (const auto& request : requests) counted += 0.02 * request.count;
    Similar::forward(requests);
  }
};

}  // namespace

TEST_CASE("so does a model that reads a long prompt in pieces") {
  Counting model(same());
  toy::Target target(12, 1, 3.0);
  fd::Decoder plain{target, toy::TokenCache(800, 64), fd::NoDraft{}, fd::SampleAndMatch{}};
  const auto check = [&]<Shape S>(fd::AnyDrafter<S> drafter) {
    given::Chain<S> chain(given::Costs::kNone);
    chain.use_clock(&counting);
    chain.add("model", std::move(drafter));
    fd::Decoder decoder{target, toy::TokenCache(800, 64), std::move(chain), fd::SampleAndMatch{}};
    Drafted drafted;
    int pieces = 0;
    for (int request = 0; request < 6; ++request) {
      const bool is_long = request >= 4;  // those before show that it pays
      Tokens prompt;
      for (int i = 0; i < (is_long ? 300 : 5); ++i) prompt.push_back((i * i + request) % 12);
      fd::Options options{.max_tokens = 400, .seed = 7, .ignore_end = true};
      options.sampling.temperature = request % 2 == 0 ? 0.0f : 0.7f;
      const auto truth = plain.generate(prompt, options).tokens;
      double before = counted;
      options.observer = [&](const fd::RoundEvent&) {
        const double seconds = counted - before;
        before = counted;
        CHECK(seconds < 4.5);
        pieces += seconds > 2;
      };
      const auto result = decoder.generate(prompt, options);
      CHECK(result.tokens == truth);
      drafted.add(result);
    }
    CHECK(pieces > 1);
    CHECK(drafted.both());
  };
  for (const How how : {How::kArgmax, How::kCoupled, How::kDrawn}) {
    CAPTURE(static_cast<int>(how));
    check(fd::AnyDrafter<>(fd::ModelDrafter<Counting, toy::TokenCache>(
        model, toy::TokenCache(800, 64), {.sampling = how})));
    check(fd::AnyDrafter<Shape::kTree>(fd::ModelTreeDrafter<Counting, toy::TokenCache>(
        model, toy::TokenCache(800, 64),
        {.branching = {2, 1, 1}, .sampling = how, .best_first = fd::BestFirstSettings()})));
  }
  Counting other(mirrored());
  check(fd::AnyDrafter<>(fd::HeterogeneousDrafter<Counting, toy::TokenCache>(
      other, toy::TokenCache(1600, 64), Similar(same()).codec(), other.codec(), {})));
}

// ---- the law ------------------------------------------------------------------------------------

namespace {

/// What was verified on any path.
struct Seen : Drafted {
  /// A drafter of several fails in silence, where a draw was refused as elsewhere.
  void add(const fd::Result& result) {
    Drafted::add(result);
    failed |= result.speculation.find("failed") != std::string::npos;
  }
  void add(const fd::RoundEvent& round) {
    const fd::DraftTree& draft = round.draft;
    sizes[round.anchor_position].insert(draft.drafted());
    for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
      const bool drawn = draft.siblings(draft.parent(node)) != fd::Siblings::kPointMass;
      if (drawn) drawn_depth = std::max(drawn_depth, draft.depth(node));
      prolonged |= !drawn && draft.siblings(0) != fd::Siblings::kPointMass;
    }
  }
  /// How much was drafted at one place of the text was another on another path to it.
  bool depends_on_the_past() const {
    return std::any_of(sizes.begin(), sizes.end(),
                       [](const auto& place) { return place.second.size() > 1; });
  }

  std::map<fd::Position, std::set<int>> sizes;  // of drafts, by place
  int drawn_depth = 0;
  bool failed = false;
  bool prolonged = false;  // a drawn draft was, by found tokens
};

using Draft = fd::ModelDrafter<toy::Target, toy::TokenCache>;
using Tree = fd::ModelTreeDrafter<toy::Target, toy::TokenCache>;
using Chain = given::Chain<Shape::kTree>;

/// Drafts of what `add(chain, model)` adds leave the law alone, whoever decides about them.
template <typename Add>
Seen check_law(int n_vocab, int n, const Add& add, const TreeRule& rule = setup::kRejection) {
  toy::Target target(n_vocab, 0, 1.0, 9), model(n_vocab, 0, 1.0, 4);
  const fd::SamplingOptions sampling = law::law_transforms()[2];
  const auto expected = setup::expected(target, setup::kPeriodic, sampling, n);
  Seen seen;
  bool depended = false;
  fd::Options options{.max_tokens = n, .sampling = sampling};
  options.observer = [&](const fd::RoundEvent& round) { seen.add(round); };
  using given::Costs;
  constexpr auto kTicking =
      &given::ticking<50>;  // so dear that improbable paths end before the limit
  for (const auto& [costs, clock] : {std::pair(Costs::kNone, kTicking),
                                     {Costs::kSenseless, kTicking},
                                     {Costs::kSenseless, &given::senseless}}) {
    CAPTURE(static_cast<int>(costs), clock == kTicking);
    seen.sizes.clear();
    const auto found = law::law_of([&](fd::Rng& rng) {
      given::reading = 0;
      Chain chain(costs);
      chain.use_clock(clock);
      add(chain, model);
      fd::Decoder decoder{target, toy::TokenCache{32, 16}, std::move(chain), rule};
      decoder.use_rng(&rng);
      seen.add(decoder.generate(setup::kPeriodic, options));
      return Tokens(decoder.tokens().begin(), decoder.tokens().end());
    });
    CHECK(law::total_variation(found, expected) <= setup::kExact);
    depended |= seen.depends_on_the_past();
  }
  CHECK(depended);
  CHECK(seen.both());
  CHECK_FALSE(seen.failed);
  return seen;
}

}  // namespace

TEST_CASE("drawn chains, and what is found behind them, keep the law under a controller") {
  for (const How how : {How::kDrawn, How::kAuto}) {
    CAPTURE(static_cast<int>(how));
    const Seen seen = check_law(2, 7, [how](Chain& chain, toy::Target& model) {
      chain.add("model", Draft(model, toy::TokenCache{32, 16}, {.sampling = how}));
      chain.add("lookup", fd::PromptLookup());
    });
    CHECK(seen.drawn_depth >= 2);
    CHECK(seen.prolonged);
  }
}

TEST_CASE("so they do where the rule looks at blocks") {
  const Seen seen = check_law(
      2, 7,
      [](Chain& chain, toy::Target& model) {
        chain.add("model", Draft(model, toy::TokenCache{32, 16}, {.sampling = How::kDrawn}));
        chain.add("lookup", fd::PromptLookup());
      },
      setup::kBlock);
  CHECK(seen.drawn_depth >= 2);
  CHECK(seen.prolonged);
}

TEST_CASE("so do drafts of another vocabulary, by either translation") {
  for (const auto translation : {fd::Translation::kIntersection, fd::Translation::kRealignment}) {
    for (const How how : {How::kDrawn, How::kAuto}) {
      CAPTURE(static_cast<int>(translation), static_cast<int>(how));
      toy::Target other(4, 0, 1.0, 8);
      const Seen seen = check_law(3, 5, [&](Chain& chain, toy::Target&) {
        chain.add("model", fd::HeterogeneousDrafter<toy::Target, toy::TokenCache>(
                               other, toy::TokenCache{64, 16}, spelled_codec({"a", "b", "ba"}),
                               spelled_codec({"b", "ab", "a", "c"}),
                               {.translation = translation, .sampling = how}));
        chain.add("lookup", fd::PromptLookup());
      });
      CHECK((seen.drawn_depth > 0) == (translation == fd::Translation::kIntersection));
    }
  }
}

TEST_CASE("so do drawn trees, alone and beside what is found") {
  struct Case {
    int n_vocab;
    int n;
    std::vector<int> branching;
    fd::Siblings siblings;
    bool lookup;
  };
  const auto independent = fd::Siblings::kIndependent;
  const auto without = fd::Siblings::kWithoutReplacement;
  for (const auto& [n_vocab, n, branching, siblings, lookup] :
       {Case{2, 6, {2, 1}, independent, false}, Case{2, 6, {2, 1}, independent, true},
        Case{2, 7, {1, 2}, without, false}, Case{3, 5, {2}, without, false}}) {
    CAPTURE(n_vocab, branching, static_cast<int>(siblings), lookup);
    const Seen seen = check_law(n_vocab, n, [&](Chain& chain, toy::Target& model) {
      chain.add("model",
                Tree(model, toy::TokenCache{32, 16},
                     {.branching = branching, .siblings = siblings, .sampling = How::kDrawn}));
      if (lookup) chain.add("lookup", fd::PromptLookup());
    });
    CHECK(seen.drawn_depth == static_cast<int>(branching.size()));
  }
}

TEST_CASE("so do trees that follow what the model is sure of, and draws in their place") {
  for (const How how : {How::kArgmax, How::kAuto}) {
    CAPTURE(static_cast<int>(how));
    const Seen seen = check_law(3, 5, [how](Chain& chain, toy::Target& model) {
      chain.add("model", Tree(model, toy::TokenCache{32, 16},
                              {.branching = {1, 1, 1},
                               .sampling = how,
                               .best_first = fd::BestFirstSettings{.children = 2, .beam = 2}}));
    });
    CHECK((seen.drawn_depth > 0) == (how == How::kAuto));
  }
}

TEST_CASE("so does what a model drafts with its own first layer") {
  TinyPair pair;
  using Self = fd::SelfDrafter<fd::Cpu, fd::HybridCache<fd::f16>>;
  Drafted drafted;
  const fd::Options options{.max_tokens = 5, .sampling = {.temperature = 1.5f, .top_k = 2}};
  // Two tokens can follow each time, so that all texts can be tried.
  const auto law_by = [&](const auto& drafter) {
    return law::law_of([&](fd::Rng& rng) {
      given::reading = 0;
      fd::Decoder decoder{pair.target, pair.target.make_cache(), drafter(),
                          fd::RejectionSampling{}};
      decoder.use_rng(&rng);
      drafted.add(decoder.generate(Tokens{72, 101, 108}, options));
      return Tokens(decoder.tokens().begin(), decoder.tokens().end());
    });
  };
  const auto expected = law_by([] { return fd::NoDraft{}; });
  CHECK(expected.size() == 32);
  CHECK_FALSE(drafted.both());
  for (const auto costs : {given::Costs::kNone, given::Costs::kSenseless}) {
    CAPTURE(static_cast<int>(costs));
    const auto found = law_by([&] {
      given::Chain<Shape::kChain> chain(costs);
      chain.use_clock(&given::ticking<20>);
      chain.add("self", Self(pair.target, std::vector<int>{0}, {.sampling = How::kDrawn}));
      return chain;
    });
    CHECK(law::total_variation(found, expected) <= setup::kExact);
  }
  CHECK(drafted.both());
}
