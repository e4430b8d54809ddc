#include <foredraft/control/controller_state.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/simulated_rounds.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
namespace sim = simulated;

namespace {

const fd::VocabularyFingerprint kVocabulary{.n_vocab = 1000, .used = 990, .pieces = 7};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of a controller that has seen two texts.
fd::ControllerState some_state() {
  const std::vector<sim::Nature> natures{
      {.acceptance = 0.1, .seconds = 2e-6, .confidence = 0.4f},
      {.acceptance = 0.8, .seconds = 0.005, .model = true, .read_seconds = 0.0005}};
  fd::Chain<> chain;
  chain.use_clock(&sim::clock);
  chain.add("lookup", sim::Drafter(natures[0], 1));
  chain.add("draft", sim::Drafter(natures[1], 2));
  for (const int prompt : {20, 900}) {
    chain.reset();
    sim::Rounds(chain, sim::usual_pass, prompt).run(400);
  }
  fd::ControllerState state = chain.learned();
  state.setup = "this machine, 2 threads";
  return state;
}

std::string file_of(const fd::ControllerState& state) {
  std::ostringstream out;
  state.save(out, kVocabulary);
  return out.str();
}
fd::ControllerState load(const std::string& bytes,
                         const fd::VocabularyFingerprint& vocabulary = kVocabulary) {
  std::istringstream in(bytes);
  return fd::ControllerState::load(in, vocabulary);
}

/// A file with this payload whose checksums are right.
std::string framed(std::vector<std::byte> payload) {
  std::ostringstream out;
  fd::write_table(out, {fd::TableKind::kController, kVocabulary, std::move(payload)});
  return out.str();
}
std::vector<std::byte> payload_of(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file)).subspan(fd::table_frame::kSize);
  return {bytes.begin(), bytes.end()};
}

/// A round without a draft brings a token, and its proposal took so long.
void grow(fd::Controller& controller, double seconds) {
  fd::DraftTree draft;
  draft.reset(1);
  const fd::NodeIndex path[] = {0};
  const fd::TokenId tokens[] = {2};
  const fd::Scores scores;
  controller.learn(fd::Round{draft, path, tokens, scores, 20, {seconds, 0.01}});
}

/// Refused, or a state from which a controller goes on with finite numbers only.
void check_harmless(const std::string& file) {
  fd::ControllerState state;
  try {
    state = load(file);
  } catch (const fd::Error&) {
    return;
  }
  fd::Controller controller;
  controller.watch(state.drafters.size());
  controller.restore(state);
  for (const int context : {0, 1000, 100000}) {
    for (int round = 0; round < 5; ++round)
      grow(controller, 0.01);  // what is invested waits for these
    controller.begin(context, {.depth = 63, .nodes = 63});
    controller.promised(0.2);
    const auto& prices = controller.prices();
    REQUIRE(std::all_of(prices.begin(), prices.end(), [](double p) { return std::isfinite(p); }));
    for (std::size_t i = 0; i < state.drafters.size(); ++i) {
      controller.asks(i);
      for (const int backlog : {0, 3000}) {
        const auto plan = controller.plan(i, backlog, {.depth = 63, .nodes = 63}, 0.2);
        if (!plan) continue;
        REQUIRE(std::isfinite(plan->value));
        REQUIRE((plan->limit.depth >= 0 && plan->limit.depth <= 63));
        REQUIRE(plan->limit.read >= 0);
      }
      const double rate = controller.acceptance(i).rate(0.5f, 3);
      REQUIRE((rate > 0 && rate < 1));
    }
  }
}

}  // namespace

TEST_CASE("a state comes back as it was saved") {
  const fd::ControllerState state = some_state();
  REQUIRE(state.drafters[1].step_seconds > 0);
  REQUIRE(state.drafters[1].read_seconds > 0);
  REQUIRE(state.n_answers == 2);
  CHECK(load(file_of(state)) == state);
  CHECK(load(file_of({})) == fd::ControllerState{});
}
TEST_CASE("costs are forgotten, acceptance stays") {
  fd::ControllerState before = some_state();
  before.drafters[0].doubt = 4;
  fd::ControllerState after = before;
  after.forget_costs();
  CHECK(after.setup.empty());
  CHECK(after.passes == fd::PassCost::State{});
  CHECK(after.recent == fd::ControllerState::Growth{});
  CHECK(after.recent_slow == fd::ControllerState::Growth{});
  CHECK(after.answers == before.answers);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(after.drafters[i] == fd::ControllerState::Drafter{.name = before.drafters[i].name,
                                                            .accepted = before.drafters[i].accepted,
                                                            .benefit = before.drafters[i].benefit,
                                                            .width = before.drafters[i].width});
  }
  CHECK(load(file_of(after)) == after);
}
TEST_CASE("a state of another vocabulary, kind or version is refused") {
  const std::string file = file_of(some_state());
  CHECK(code_of([&] { load(file, {.n_vocab = 1000, .used = 990, .pieces = 8}); }) ==
        fd::ErrorCode::kVocabularyMismatch);
  CHECK(code_of([&] {
          std::ostringstream out;
          fd::write_table(out, {fd::TableKind::kNgramCounts, kVocabulary, payload_of(file)});
          load(out.str());
        }) == fd::ErrorCode::kInvalidOption);
  std::string newer = file;
  newer[8] = 2;
  CHECK(code_of([&] { load(newer); }) == fd::ErrorCode::kUnsupportedModel);
  CHECK(code_of([&] { load("no state"); }) == fd::ErrorCode::kCorruptFile);
}
TEST_CASE("a file that is cut off, longer or damaged in one byte is refused") {
  const std::string file = file_of(some_state());
  for (std::size_t size = 0; size < file.size(); ++size) {
    REQUIRE_THROWS_AS(load(file.substr(0, size)), fd::Error);
  }
  CHECK(code_of([&] { load(file + '\0'); }) == fd::ErrorCode::kCorruptFile);
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      REQUIRE_THROWS_AS(load(damaged), fd::Error);
    }
  }
}
TEST_CASE("a payload with checksums that fit is refused, or does no harm") {
  const std::vector<std::byte> payload = payload_of(file_of(some_state()));
  for (std::size_t size = 0; size < payload.size(); ++size) {
    REQUIRE_THROWS_AS(load(framed({payload.begin(), payload.begin() + std::ptrdiff_t(size)})),
                      fd::Error);
  }
  for (std::size_t i = 0; i < payload.size(); ++i) {
    for (const unsigned flip : {1u, 0x40u, 0x80u, 0xffu}) {
      auto changed = payload;
      changed[i] ^= static_cast<std::byte>(flip);
      check_harmless(framed(std::move(changed)));
    }
  }
  // Eight bytes at a time, which numbers are.
  for (std::size_t i = 0; i + 8 <= payload.size(); ++i) {
    for (const double value : {kNaN, -kInfinity, kInfinity, -1.0, 1e300, 1e-300, 0.0}) {
      auto changed = payload;
      const auto bits = std::bit_cast<std::uint64_t>(value);
      for (std::size_t k = 0; k < 8; ++k) changed[i + k] = static_cast<std::byte>(bits >> 8 * k);
      check_harmless(framed(std::move(changed)));
    }
  }
}
TEST_CASE("numbers that no controller can have learned are refused") {
  using State = fd::ControllerState;
  const std::vector<std::function<void(State&, double)>> places{
      [](State& s, double x) { s.drafters[0].accepted.all.tried = x; },
      [](State& s, double x) { s.drafters[0].accepted.classes[3].depths[1].accepted = x; },
      [](State& s, double x) { s.drafters[0].accepted.levels[4].tried = x; },
      [](State& s, double x) { s.drafters[1].accepted.lately_expected = x; },
      [](State& s, double x) { s.drafters[1].accepted.better = x; },
      [](State& s, double x) { s.drafters[1].benefit = x; },
      [](State& s, double x) { s.drafters[1].width = x; },
      [](State& s, double x) { s.drafters[1].seconds = x; },
      [](State& s, double x) { s.drafters[1].ask_seconds = x; },
      [](State& s, double x) { s.drafters[1].step_seconds = x; },
      [](State& s, double x) { s.drafters[1].read_seconds = x; },
      [](State& s, double x) { s.passes[0][0].seconds = x; },
      [](State& s, double x) { s.recent.tokens = x; },
      [](State& s, double x) { s.recent_slow.seconds = x; },
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const double bad : {kNaN, kInfinity, -kInfinity, -1.0, 1e300}) {
      CAPTURE(i, bad);
      State state = some_state();
      places[i](state, bad);
      CHECK(code_of([&] { check(state); }) == fd::ErrorCode::kInvalidOption);
      CHECK(code_of([&] { file_of(state); }) == fd::ErrorCode::kInvalidOption);
    }
  }
  State state = some_state();
  state.passes[0][0].seconds = 0;  // measured, and yet no time
  CHECK(code_of([&] { check(state); }) == fd::ErrorCode::kInvalidOption);
  state = some_state();
  state.drafters[0].accepted.all.accepted = state.drafters[0].accepted.all.tried + 1;
  CHECK(code_of([&] { check(state); }) == fd::ErrorCode::kInvalidOption);
  state = some_state();
  state.setup.assign(State::kLongestName + 1, 'x');
  CHECK(code_of([&] { check(state); }) == fd::ErrorCode::kInvalidOption);
  state = some_state();
  state.drafters.resize(State::kMostDrafters + 1);
  CHECK(code_of([&] { check(state); }) == fd::ErrorCode::kInvalidOption);
}
TEST_CASE("no drafter is named twice") {
  fd::ControllerState state = some_state();
  state.drafters[0].name = "one";
  state.drafters[1].name = "two";
  std::vector<std::byte> payload = payload_of(file_of(state));
  const auto two = std::as_bytes(std::span("two", 3));
  const auto found = std::search(payload.begin(), payload.end(), two.begin(), two.end());
  REQUIRE(found != payload.end());
  std::ranges::copy(std::as_bytes(std::span("one", 3)), found);
  CHECK(code_of([&] { load(framed(payload)); }) == fd::ErrorCode::kCorruptFile);
  state.drafters[1].name = "one";
  CHECK(code_of([&] { file_of(state); }) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("a loss behind an investment doubles the doubt, once for each text") {
  fd::Controller controller;
  controller.watch(2);
  const auto doubts = [&] {
    const fd::ControllerState state = controller.state();
    return std::pair(state.drafters[0].doubt, state.drafters[1].doubt);
  };
  const auto text = [&](double seconds, bool invests) {
    controller.begin_text();
    controller.begin(20, {.depth = 4, .nodes = 4});
    controller.chosen(0, {.limit = {}, .invests = invests});
    grow(controller, seconds);
  };
  text(1.0, true);
  CHECK(doubts() == std::pair(2.0, 1.0));  // as if the text ended here
  for (int i = 0; i < 3; ++i) controller.begin_text();
  CHECK(doubts() == std::pair(2.0, 1.0));
  text(1.0, true);
  CHECK(doubts() == std::pair(4.0, 1.0));
  text(0.0, false);
  CHECK(doubts().first == Approx(3.6));
  text(-0.001, true);
  CHECK(doubts() == std::pair(1.0, 1.0));
}

TEST_CASE("a short reading does not take the place of more that was read before") {
  constexpr int kBacklog = 200;
  const auto reading_at = [&](int context) {
    fd::Controller controller;
    controller.watch(1);
    for (int round = 0; round < 100; ++round) grow(controller, 0.0);
    controller.begin(context, {.depth = 4, .nodes = 4});
    controller.promised(0.0);
    const auto plan = controller.plan(0, kBacklog, {.depth = 4, .nodes = 4}, 0.0);
    return plan ? plan->limit.read : 0;
  };
  const int nothing_read = reading_at(kBacklog + 10);
  CHECK((nothing_read > 0 && nothing_read < kBacklog));
  const int much_read = reading_at(1000);
  CHECK((much_read == 0 || much_read >= kBacklog));
}
