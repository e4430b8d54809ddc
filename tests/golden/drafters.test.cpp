// Every drafter on a real model, behind prompts of every kind that the benchmark has: the text is
// the plain one, at fixed depths and where a controller decides, greedy and sampled.

#include <foredraft/models.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drafter/given_costs.hpp"
#include "support/catch.hpp"
#include "support/drafted.hpp"
#include "support/files.hpp"
#include "support/models.hpp"

namespace fd = foredraft;

namespace {

using fd::Shape;
using Tokens = std::vector<fd::TokenId>;
using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
using Chain = given::Chain<Shape::kTree>;
using given::Costs;

constexpr int kContext = 512;
constexpr std::size_t kMostOfPrompt = 300;  // its last tokens: the test is to be quick
constexpr std::size_t kGroups = 8;

// Tokens of a text: half of them at a fixed depth, half as a controller decides.
constexpr int kTokens = 24;

// By prompt; the first ones are those of drafters with a model, which pays for every level.
constexpr std::array<int, kGroups> kDepths{7, 2, 5, 16, 8, 1, 12, 6};

struct Prompt {
  std::string group;
  Tokens tokens = {};
  int depth = 0;
  /// What the target has computed of it.
  Cache::Snapshot read = {};
  /// What it writes behind it without drafts.
  Tokens greedy = {};
  Tokens sampled = {};
};

const fd::Options kGreedy{.max_tokens = kTokens, .n_draft = 0, .ignore_end = true};
const fd::Options kSampled{.max_tokens = kTokens,
                           .n_draft = 0,
                           .sampling = {.temperature = 0.7f},
                           .seed = 7,
                           .ignore_end = true};

template <typename D, typename A>
auto decoder_of(Model& model, D drafter, A rule) {
  return fd::Decoder{model, Cache{model.shape(), kContext}, std::move(drafter), rule};
}

constexpr std::size_t kAll = 48;  // prompts

/// The first prompt of each group, up to n of them, or all there are; and their plain texts.
std::vector<Prompt> read_prompts(Model& model, std::size_t n) {
  std::vector<Prompt> prompts;
  std::ifstream lines(test_file("../bench/prompts/dev.jsonl"));
  for (std::string line; prompts.size() < n && std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    Prompt prompt{.group = entry.at("group").get<std::string>()};
    const auto same = [&](const Prompt& other) { return other.group == prompt.group; };
    if (n != kAll && std::any_of(prompts.begin(), prompts.end(), same)) continue;
    prompt.tokens = model.tokenizer().encode(entry.at("prompt").get<std::string>());
    if (prompt.tokens.size() > kMostOfPrompt)
      prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - kMostOfPrompt);
    prompt.depth = kDepths.at(prompts.size() % kGroups);
    prompts.push_back(std::move(prompt));
  }
  REQUIRE(prompts.size() == n);
  auto greedy = decoder_of(model, fd::NoDraft{}, fd::Greedy{});
  auto sampled = decoder_of(model, fd::NoDraft{}, fd::SampleAndMatch{});
  auto begin = sampled.snapshot();
  for (Prompt& prompt : prompts) {
    greedy.prefill(prompt.tokens);
    prompt.read = greedy.snapshot().cache;
    prompt.greedy = greedy.resume(kGreedy).tokens;
    begin.tokens = prompt.tokens;
    begin.cache = prompt.read;
    sampled.restore(begin);
    prompt.sampled = sampled.resume(kSampled).tokens;
  }
  return prompts;
}

struct Named {
  const char* name;
  std::function<void(Chain&)> add;
};

template <typename D, typename... Settings>
Named named(const char* name, const Settings&... settings) {
  return {name, [=](Chain& chain) { chain.add("only", D(settings...)); }};
}

/// One drafter under one rule, from prompt to prompt, so that what it has learnt of one is there
/// for the next.
template <typename A>
class Texts {
 public:
  Texts(Model& model, const Named& named, Costs costs, A rule)
      : decoder_(decoder_of(model, chain_of(named, costs), rule)), unread_(decoder_.snapshot()) {}

  /// What the plain decoder has read of the prompt need not be read again.
  void take(const Prompt& prompt) {
    auto begin = unread_;
    begin.tokens = prompt.tokens;
    begin.cache = prompt.read;
    decoder_.restore(begin);
  }
  /// Half of the text at the prompt's depth, half as the controller decides, in turns.
  void check(const Prompt& prompt, fd::Options options, const Tokens& expected) {
    CAPTURE(prompt.group, prompt.depth, options.sampling.temperature);
    options.max_tokens = kTokens / 2;
    Tokens text;
    for (const bool first : {true, false}) {
      const bool fixed = first == (n_texts_ % 2 == 0);
      options.n_draft = fixed ? prompt.depth : fd::Options::kAutomatic;
      const fd::Result result =
          first ? decoder_.generate(prompt.tokens, options) : decoder_.resume(options);
      text.insert(text.end(), result.tokens.begin(), result.tokens.end());
      CHECK(result.speculation.find("failed") == std::string::npos);  // its error would be hidden
      (fixed ? at_fixed_depths : controlled).add(result);
    }
    CHECK(text == expected);
    ++n_texts_;
  }

  Drafted at_fixed_depths;
  Drafted controlled;

 private:
  static Chain chain_of(const Named& named, Costs costs) {
    Chain chain(costs);
    named.add(chain);
    return chain;
  }

  using Decoder = fd::Decoder<Model, Cache, Chain, A>;
  Decoder decoder_;
  typename Decoder::Snapshot unread_;
  int n_texts_ = 0;
};

/// The target and its plain texts.
struct Plain {
  explicit Plain(const std::filesystem::path& file, std::size_t n_prompts = kGroups)
      : model(fd::load(cpu, file)), prompts(read_prompts(model, n_prompts)) {}

  fd::Cpu cpu{{.threads = 2}};
  Model model;
  std::vector<Prompt> prompts;
};

/// Greedily a controller decides at random. Sampled it drafts all that may bring something, and behind
/// all prompts it decides at random there, too. Much or little is drafted, whatever this machine's
/// clock says.
void check_drafters(Plain& plain, const std::vector<Named>& drafters) {
  const Costs of_sampled = plain.prompts.size() == kAll ? Costs::kSenseless : Costs::kNone;
  for (const Named& named : drafters) {
    CAPTURE(named.name);
    given::reading = 0;
    Texts greedy(plain.model, named, Costs::kSenseless, fd::Greedy{});
    Texts sampled(plain.model, named, of_sampled, fd::SampleAndMatch{});
    for (const Prompt& prompt : plain.prompts) {
      greedy.check(prompt, kGreedy, prompt.greedy);
      sampled.take(prompt);
      sampled.check(prompt, kSampled, prompt.sampled);
    }
    // Back to the prompt's end: some drafters know by now what comes.
    greedy.check(plain.prompts.back(), kGreedy, plain.prompts.back().greedy);
    Drafted at_fixed_depths = greedy.at_fixed_depths;
    at_fixed_depths.add(sampled.at_fixed_depths);
    CHECK(at_fixed_depths.both());
    Drafted controlled = greedy.controlled;
    controlled.add(sampled.controlled);
    CHECK(controlled.both());
  }
}

// Short matches, right or wrong: these texts are too short for long ones.
constexpr fd::NgramSettings kNgrams{.size_n = 2, .size_m = 16};
constexpr fd::NgramMapK4V::Settings kVotes{.size_n = 2, .size_m = 16};
constexpr fd::PromptLookup::Settings kLookup{.min_match = 1};
constexpr fd::SuffixAutomaton::Settings kAutomaton{.min_match = 1};

const char* const kModel = "smollm2-135m";

void check_lookups(Plain& plain) {
  // What follows is shared by the greedy texts and the sampled ones.
  const auto table = std::make_shared<fd::NgramModTable>(2, 1 << 14);
  const auto counts = std::make_shared<fd::SharedNgramCounts>(fd::NgramCounts(1 << 14));
  check_drafters(
      plain,
      {named<fd::PromptLookup>("PromptLookup", kLookup),
       named<fd::NgramSimple>("NgramSimple", kNgrams), named<fd::NgramMapK>("NgramMapK", kNgrams),
       named<fd::NgramMapK4V>("NgramMapK4V", kVotes), named<fd::NgramMod>("NgramMod", table),
       named<fd::NgramCache>("NgramCache", counts),
       named<fd::SuffixAutomaton>("SuffixAutomaton", kAutomaton)});
}

void check_learners(Plain& plain) {
  check_drafters(plain, {named<fd::SuffixDecoding<Shape::kChain>>("SuffixDecoding, chain"),
                         named<fd::SuffixDecoding<Shape::kTree>>("SuffixDecoding, tree"),
                         named<fd::TokenRecycling<Shape::kChain>>("TokenRecycling, chain"),
                         named<fd::TokenRecycling<Shape::kTree>>("TokenRecycling, tree"),
                         named<fd::Lookahead>("Lookahead")});
}

/// @param file  the target's: as its own draft in another format it is often right, and wrong at times
void check_models(Plain& plain, const std::filesystem::path& file) {
  Model draft = fd::load(plain.cpu, file, {.requantize = fd::TensorType::kQ4_0});
  const auto chain = [&] { return fd::ModelDrafter<Model>(draft, {}, kContext); };
  const auto tree = [&] { return fd::ModelTreeDrafter<Model>(draft, {}, kContext); };
  const auto best = [&] {
    return fd::ModelTreeDrafter<Model>(draft, {.best_first = fd::BestFirstSettings()}, kContext);
  };
  const auto layers = fd::layers_without_second_quarter(plain.model.config());
  const auto self = [&] { return fd::SelfDrafter<fd::Cpu, Cache>(plain.model, layers); };
  check_drafters(plain,
                 {{"ModelDrafter", [&](Chain& all) { all.add("only", chain()); }},
                  {"ModelTreeDrafter", [&](Chain& all) { all.add("only", tree()); }},
                  {"ModelTreeDrafter, best first", [&](Chain& all) { all.add("only", best()); }},
                  {"SelfDrafter", [&](Chain& all) { all.add("only", self()); }},
                  {"Chain", [&](Chain& all) {
                     all.add("lookup", fd::PromptLookup(kLookup));
                     all.add("cache", fd::NgramCache());
                     all.add("suffix", fd::SuffixDecoding<Shape::kTree>());
                     all.add("recycling", fd::TokenRecycling<Shape::kTree>());
                     all.add("self", self());
                     all.add("model", chain());
                     all.add("tree", tree());
                     all.add("best", best());
                   }}});
}

}  // namespace

TEST_CASE("smollm2-135m writes the same text with every drafter that looks up what was written") {
  const auto file = model_file(kModel);
  if (!file) return;
  Plain plain(*file);
  check_lookups(plain);
}

TEST_CASE("smollm2-135m writes the same text with every drafter that learns from its answers") {
  const auto file = model_file(kModel);
  if (!file) return;
  Plain plain(*file);
  check_learners(plain);
}

TEST_CASE("smollm2-135m writes the same text with every drafter that has a model, and several") {
  const auto file = model_file(kModel);
  if (!file) return;
  Plain plain(*file, 3);
  check_models(plain, *file);
}

TEST_CASE("so it does behind all prompts, and with decisions at random for sampled texts",
          "[.all]") {
  const auto file = model_file(kModel);
  if (!file) return;
  Plain plain(*file, kAll);
  check_lookups(plain);
  check_learners(plain);
  check_models(plain, *file);
}

TEST_CASE("gemma-3-270m writes the same text with drafts of smollm2-135m, which has other tokens") {
  const auto file = model_file("gemma-3-270m");
  const auto smaller = model_file(kModel);
  if (!file || !smaller) return;
  Plain plain(*file, 3);
  Model draft = fd::load(plain.cpu, *smaller);
  const auto translated = [&](fd::Translation translation) {
    return [&, translation](Chain& all) {
      all.add("only",
              fd::HeterogeneousDrafter<Model, Cache>(draft, fd::codec_of(plain.model.tokenizer()),
                                                     fd::codec_of(draft.tokenizer()),
                                                     {.translation = translation}, 2 * kContext));
    };
  };
  check_drafters(plain, {{"intersection", translated(fd::Translation::kIntersection)},
                         {"realignment", translated(fd::Translation::kRealignment)}});
}
