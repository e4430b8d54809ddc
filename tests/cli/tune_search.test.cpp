#include "tune_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/catch.hpp"

using cli::Found;
using cli::Lap;
using cli::Ratio;
using cli::Space;
using cli::Way;

namespace {

Space space(bool draft_model) {
  return {.kinds = {{"lookup", true, false, false, true},
                    {"simple", false, false, true},
                    {"suffix", true, false},
                    {"recycling", true, false},
                    {"draft", true, true}},
          .draft_model = draft_model,
          .copies = {{"none", 0}, {"q8_0", 32768}}};
}

/// Answers whose time is given, but for noise that is the same in every run of the test.
class Machine {
 public:
  explicit Machine(std::function<double(const Way&)> seconds, double noise = 0.05)
      : seconds_(std::move(seconds)), noise_(noise) {}

  Lap operator()(const std::vector<Way>& ways, const std::vector<int>& prompts) {
    Lap lap;
    for (const Way& way : ways) {
      lap.emplace_back();
      for (const int prompt : prompts) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
        const double unit = static_cast<double>(state_ >> 11) * 0x1p-53;
        lap.back().push_back(seconds_(way) * (1 + prompt) * (1 + noise_ * (unit - 0.5)));
        ++answers;
      }
    }
    return lap;
  }
  int answers = 0;

 private:
  std::function<double(const Way&)> seconds_;
  double noise_;
  std::uint64_t state_ = 1;
};

Found play(const Space& space, Machine& machine, int prompts = 8, int rounds = 3) {
  return cli::search(space, prompts, rounds,
                     [&](const auto& w, const auto& p) { return machine(w, p); });
}

}  // namespace

TEST_CASE("options are those of the command line") {
  CHECK(Way{}.options().empty());
  CHECK(Way{.plain = true}.options() == " --spec-type none");
  CHECK(
      Way{.drafters = {"lookup", "draft"}, .tree = {2, 1}, .depth = 4, .lookup_min = 3}.options() ==
      " --spec-type lookup,draft --spec-tree 2,1 --spec-draft-n-max 4 --spec-lookup-min 3");
  CHECK(Way{.copy = {"q4_0", 99}}.options() == " --quantize-draft q4_0 --draft-vocab 99");
  CHECK(Way{.drafters = {"simple"}, .nodes = 8, .ngram_size = 4}.options() ==
        " --spec-type simple --spec-draft-nodes 8 --spec-ngram-size-n 4");
}
TEST_CASE("a draft model is used where somebody asks it") {
  CHECK(space(true).uses_model({}));
  CHECK(space(true).uses_model({.drafters = {"draft"}}));
  CHECK_FALSE(space(true).uses_model({.with_model = false}));
  CHECK_FALSE(space(true).uses_model({.drafters = {"lookup"}}));
  CHECK_FALSE(space(true).uses_model({.plain = true}));
  CHECK_FALSE(space(false).uses_model({}));
}
TEST_CASE("what has no effect is not tried") {
  for (const bool model : {false, true}) {
    const Space s = space(model);
    std::vector<std::string> seen;
    for (const Way& way : s.other_drafters({})) {
      const std::string name = way.options() + (way.with_model ? "" : " -");
      CHECK(std::find(seen.begin(), seen.end(), name) == seen.end());
      seen.push_back(name);
      CHECK(way != Way{});
      if (!model) CHECK(way.options().find("draft") == std::string::npos);
    }
    CHECK(s.other_trees({}).empty() != model);
    CHECK(s.other_trees({.drafters = {"lookup"}}).empty());
    CHECK(s.other_copies({}).size() == (model ? 2u : 0u));
    CHECK(s.other_copies({.drafters = {"lookup"}}).empty());
    CHECK(Space{s.kinds, model, false}.other_trees({}).empty());
    CHECK(s.other_depths({.plain = true}).empty());
    CHECK(s.other_matches({.drafters = {"suffix"}}).empty());
    CHECK(s.other_matches({}).size() == 3);
    CHECK(s.other_nodes({.plain = true}).empty());
    CHECK(s.other_nodes({}).size() == 4);
    CHECK(s.other_ngrams({.plain = true}).empty());
    CHECK(s.other_ngrams({.drafters = {"lookup", "simple"}}).size() == 3);
    // Auto has none that takes a size, so one joins it.
    CHECK(s.other_ngrams({.with_model = false}).size() == 3);
    for (const Way& way : s.other_ngrams({.with_model = false})) {
      CHECK(way.drafters == std::vector<std::string>{"lookup", "simple", "suffix", "recycling"});
      CHECK(way.ngram_size > 0);
    }
  }
}
TEST_CASE("the median of few ratios has no interval, that of many one that narrows") {
  CHECK(Ratio::of({}).median == 1);
  CHECK(Ratio::of({3, 1, 2}).median == 2);
  CHECK(Ratio::of({4, 1, 2, 3}).median == 2.5);
  CHECK_FALSE(Ratio::of({1.1, 1.1, 1.1, 1.1, 1.1}).low);
  CHECK_FALSE(Ratio::of({1.1, 1.1, 1.1, 1.1, 1.1}).gains());
  const Ratio six = Ratio::of({6, 5, 4, 3, 2, 1.5});  // 1 - 2/64 is 97 %
  CHECK(*six.low == 1.5);
  CHECK(*six.high == 6);
  CHECK(six.gains());
  // Of 20 the 6th smallest and greatest; any table of the sign test has them.
  std::vector<double> twenty;
  for (int i = 1; i <= 20; ++i) twenty.push_back(i);
  CHECK(*Ratio::of(twenty).low == 6);
  CHECK(*Ratio::of(twenty).high == 15);
  CHECK_FALSE(Ratio::of(std::vector<double>(100, 1.005)).gains());  // nobody notices
  CHECK(Ratio::of(std::vector<double>(100, 0.9)).loses());
}
TEST_CASE("the best way is found, whichever coordinate it takes") {
  const std::vector<Way> wanted{
      {.plain = true},
      {.with_model = false},
      {.drafters = {"suffix"}},
      {.drafters = {"draft"}, .tree = {3, 2, 1, 1}},
      {.drafters = {"draft"}, .copy = {"none", 0}},
      {.drafters = {"draft"}, .depth = 4, .copy = {"q8_0", 32768}},
      {.drafters = {"lookup"}, .depth = 8, .lookup_min = 3},
      {.drafters = {"lookup", "recycling", "draft"}, .tree = {2, 1, 1}, .depth = 4, .nodes = 16},
      {.drafters = {"simple"}, .ngram_size = 8},
      {.drafters = {"lookup", "simple", "suffix", "recycling", "draft"}, .ngram_size = 24},
  };
  for (const Way& want : wanted) {
    CAPTURE(want.options());
    // Each coordinate that is right takes 15 % off.
    Machine machine([&](const Way& way) {
      double seconds = 1;
      const bool drafters = way.drafters == want.drafters && way.plain == want.plain &&
                            way.with_model == want.with_model;
      if (drafters) seconds *= 0.85;
      if (drafters && way.tree == want.tree) seconds *= 0.85;
      if (drafters && way.copy == want.copy) seconds *= 0.85;
      if (drafters && way.depth == want.depth) seconds *= 0.85;
      if (drafters && way.lookup_min == want.lookup_min) seconds *= 0.85;
      if (drafters && way.nodes == want.nodes) seconds *= 0.85;
      if (drafters && way.ngram_size == want.ngram_size) seconds *= 0.85;
      return seconds;
    });
    const Found found = play(space(true), machine);
    CHECK(found.best == want);
    CHECK(found.beats_auto());
    CHECK(found.to_auto.median > 1.3);
    CHECK(found.to_auto.prompts == 8);
    CHECK(machine.answers <= cli::most_answers(space(true), 8, 3));
  }
}
TEST_CASE("where nothing is better, noise is not taken for a gain") {
  int claims = 0;
  for (int i = 0; i < 40; ++i) {
    Machine machine([](const Way&) { return 1.0; }, 0.1 + 0.01 * i);
    const Found found = play(space(i % 2 == 0), machine, 6 + i % 5, 2);
    CHECK(machine.answers <= cli::most_answers(space(i % 2 == 0), 6 + i % 5, 2));
    claims += found.beats_auto() ? 1 : 0;
  }
  CHECK(claims <= 4);  // 1 expected of 40, at 2.5 %; more than 4 with a probability of 0.3 %
}
TEST_CASE("auto stays where it is the best") {
  Machine machine([](const Way& way) { return way == Way{} ? 0.5 : way.plain ? 1.0 : 0.8; });
  const Found found = play(space(true), machine);
  CHECK(found.best == Way{});
  CHECK_FALSE(found.beats_auto());
  CHECK(found.to_auto.median == 1);
  CHECK(found.auto_to_plain.gains());
  CHECK(found.steps.size() > 10);
}
TEST_CASE("one prompt, one round: too little to say anything") {
  Machine machine([](const Way& way) { return way == Way{} ? 1.0 : 0.5; });
  const Found found = play(space(false), machine, 1, 1);
  CHECK_FALSE(found.beats_auto());
  CHECK(found.to_auto.prompts == 1);
}
