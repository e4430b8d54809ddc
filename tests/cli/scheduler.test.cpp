#include "scheduler.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/core/index.hpp>

#include "support/catch.hpp"

namespace {

namespace fd = foredraft;
using cli::Channel;
using cli::Event;
using cli::Job;
using cli::Scheduler;
using Tokens = std::vector<fd::TokenId>;

/// Each step gives every text its next token: one more than the last one.
class Counting final : public cli::Together {
 public:
  explicit Counting(int writers) : writers_(fd::idx(writers)) {}

  std::future<fd::Result> generate(int writer, std::span<const fd::TokenId> prompt,
                                   const fd::Options& options, Emit emit) override {
    if (prompt.empty()) throw std::invalid_argument("no prompt");
    Text& text = writers_[fd::idx(writer)];
    if (text.promise) throw std::logic_error("a writer that writes");
    text = {
        {prompt.begin(), prompt.end()}, options, std::move(emit), {}, std::promise<fd::Result>()};
    given.push_back(writer);
    return text.promise->get_future();
  }
  void step() override {
    ++steps;
    if (before_step) before_step();
    // As fd::Batch: who is cancelled ends before the pass.
    for (Text& text : writers_) {
      if (text.promise && text.options.cancelled()) end(text, fd::FinishReason::kCancelled);
    }
    if (std::exchange(fails, false) || fails_always) throw std::runtime_error("a pass that failed");
    for (Text& text : writers_) {
      if (!text.promise) continue;
      text.tokens.push_back(text.tokens.back() + 1);
      const fd::Emitted token{text.tokens.back(), "x"};
      if (text.emit) text.emit(token);
      text.result.add(token, false);
      ++text.result.stats.emitted;
      if (static_cast<int>(text.result.tokens.size()) == text.options.max_tokens) {
        end(text, fd::FinishReason::kLength);
      }
    }
  }
  std::span<const fd::TokenId> tokens(int writer) const override {
    return writers_[fd::idx(writer)].tokens;
  }
  void use_store(std::size_t) override {}
  void keep(int writer) override {
    kept.push_back(writer);
    throw std::runtime_error("no memory");
  }

  std::function<void()> before_step;
  bool fails = false;
  bool fails_always = false;
  int steps = 0;
  std::vector<int> given, kept;

 private:
  struct Text {
    Tokens tokens = {};
    fd::Options options = {};
    Emit emit = {};
    fd::Result result = {};
    std::optional<std::promise<fd::Result>> promise = {};
  };

  static void end(Text& text, fd::FinishReason reason) {
    text.result.finish_reason = reason;
    text.promise->set_value(std::exchange(text.result, {}));
    text.promise.reset();
  }

  std::vector<Text> writers_;
};

/// A scheduler on a thread of its own.
struct Running {
  explicit Running(int writers)
      : together(writers), scheduler(together, writers, [this] { return stopped.load(); }) {}
  ~Running() { stop(); }

  void start() {
    thread = std::thread([this] { scheduler.run(); });
  }
  void stop() {
    stopped = true;
    if (thread.joinable()) thread.join();
  }
  void add(Tokens prompt, int n, const std::shared_ptr<Channel>& channel, int text = 0) {
    fd::Options options;
    options.max_tokens = n;
    scheduler.add({std::move(prompt), options, channel, text});
  }

  Counting together;
  std::atomic<bool> stopped = false;
  Scheduler scheduler;
  std::thread thread;
};

/// All events up to the last one of `texts` texts, or to a failure.
std::vector<Event> all_of(Channel& channel, int texts = 1) {
  std::vector<Event> all;
  for (;;) {
    auto events = channel.receive(std::chrono::seconds(10));
    REQUIRE_FALSE(events.empty());
    for (Event& event : events) {
      all.push_back(std::move(event));
      if (std::holds_alternative<cli::Failure>(all.back().what)) return all;
      if (all.back().last() && --texts == 0) return all;
    }
  }
}

const fd::Result& result_of(const Event& event) { return std::get<fd::Result>(event.what); }

const std::string& message_of(const Event& event) {
  return std::get<cli::Failure>(event.what).message;
}

std::shared_ptr<Channel> new_channel() { return std::make_shared<Channel>(); }

}  // namespace

TEST_CASE("scheduler: more texts than writers, each with its tokens in order") {
  Running running(2);
  std::vector<std::shared_ptr<Channel>> channels;
  for (int i = 0; i < 7; ++i) {
    channels.push_back(new_channel());
    running.add({100 * i}, 3 + i, channels.back());
  }
  CHECK(running.scheduler.state().waiting == 7);
  running.start();
  for (int i = 0; i < 7; ++i) {
    const auto events = all_of(*channels[fd::idx(i)]);
    REQUIRE(static_cast<int>(events.size()) == 3 + i + 1);
    for (int j = 0; j < 3 + i; ++j) {
      CHECK(std::get<fd::Emitted>(events[fd::idx(j)].what).token == 100 * i + j + 1);
    }
    CHECK(result_of(events.back()).finish_reason == fd::FinishReason::kLength);
  }
  const Scheduler::State state = running.scheduler.state();
  CHECK(state.done == 7);
  CHECK(state.waiting == 0);
  CHECK(state.stats.emitted == 3 + 4 + 5 + 6 + 7 + 8 + 9);
}

TEST_CASE("scheduler: several texts share a channel, and the writers") {
  Running running(3);
  const auto channel = new_channel();
  for (int text = 0; text < 3; ++text) running.add({10 * text}, 2, channel, text);
  running.start();
  std::vector<Tokens> tokens(3);
  for (const Event& event : all_of(*channel, 3)) {
    if (const auto* token = std::get_if<fd::Emitted>(&event.what)) {
      tokens[fd::idx(event.text)].push_back(token->token);
    }
  }
  CHECK(tokens == std::vector<Tokens>{{1, 2}, {11, 12}, {21, 22}});
  running.stop();
  CHECK(running.together.steps == 2);
  CHECK(running.together.kept.size() == 3);
}

TEST_CASE("scheduler: who wants the end alone is sent nothing else") {
  Running running(1);
  const auto channel = new_channel();
  fd::Options options;
  options.max_tokens = 3;
  running.scheduler.add({{7}, options, channel, 0, false});
  running.start();
  const auto events = all_of(*channel);
  REQUIRE(events.size() == 1);
  CHECK(result_of(events[0]).tokens == Tokens{8, 9, 10});
}

TEST_CASE("scheduler: a prompt goes to the writer whose text it shares most with") {
  Running running(3);
  running.start();
  // The text of each is its prompt and one more.
  const std::vector<std::pair<Tokens, int>> prompts{
      {{1, 2, 3}, 0}, {{5, 6}, 1},  // of equal ones the one unused for longest
      {{1, 2, 9}, 0}, {{5, 6, 7, 8}, 1}, {{7}, 2}, {{4}, 0}, {{1}, 1}, {{7, 8, 9}, 2}};
  for (const auto& [prompt, writer] : prompts) {
    const auto channel = new_channel();
    running.add(prompt, 1, channel);
    all_of(*channel);
    CHECK(running.together.given.back() == writer);
  }
}

TEST_CASE("scheduler: what is refused or fails is told, and the others go on") {
  Running running(2);
  const auto refused = new_channel(), one = new_channel(), other = new_channel();
  running.add({}, 1, refused);
  running.add({1}, 3, one);
  running.add({5}, 3, other);
  SECTION("a text that is refused") {
    running.start();
    CHECK(message_of(all_of(*refused).back()) == "no prompt");
    CHECK(result_of(all_of(*one).back()).tokens == Tokens{2, 3, 4});
    CHECK(result_of(all_of(*other).back()).tokens == Tokens{6, 7, 8});
  }
  SECTION("a pass") {
    running.together.before_step = [&] { running.together.fails = running.together.steps == 2; };
    running.start();
    CHECK(message_of(all_of(*one).back()) == "a pass that failed");
    CHECK(message_of(all_of(*other).back()) == "a pass that failed");
    const auto next = new_channel();
    running.add({7}, 2, next);
    CHECK(result_of(all_of(*next).back()).tokens == Tokens{8, 9});
    // Of those that failed nothing more comes, and nothing is counted.
    CHECK(one->receive(std::chrono::milliseconds(0)).empty());
    CHECK(running.scheduler.state().stats.emitted == 2);
    CHECK(running.scheduler.state().done == 4);
    CHECK(running.scheduler.state().writing == 0);
  }
}

TEST_CASE("scheduler: for who has left nothing is written") {
  Running running(1);
  const auto left = new_channel(), waits = new_channel(), stays = new_channel();
  running.add({1}, -1, left);
  running.add({2}, -1, waits);
  running.add({3}, 1, stays);
  waits->close();
  running.together.before_step = [&] {
    if (running.together.steps == 5) left->close();
  };
  running.start();
  CHECK(result_of(all_of(*stays).back()).tokens == Tokens{4});
  const auto events = all_of(*left);
  CHECK(events.size() == 4 + 1);
  CHECK(result_of(events.back()).finish_reason == fd::FinishReason::kCancelled);
  CHECK(running.together.given == std::vector<int>{0, 0});
  CHECK(waits->receive(std::chrono::milliseconds(0)).empty());
}

TEST_CASE("scheduler: all texts end where it is stopped, and those that come later") {
  Running running(1);
  const auto writes = new_channel(), waits = new_channel(), late = new_channel();
  running.add({1}, -1, writes);
  running.add({2}, -1, waits);
  running.together.before_step = [&] {
    if (running.together.steps == 3) running.stopped = true;
  };
  running.start();
  const auto events = all_of(*writes);
  CHECK(events.size() == 2 + 1);
  CHECK(result_of(events.back()).finish_reason == fd::FinishReason::kCancelled);
  CHECK(result_of(all_of(*waits).back()).finish_reason == fd::FinishReason::kCancelled);
  running.stop();
  running.add({3}, 1, late);
  const auto nothing = all_of(*late);
  REQUIRE(nothing.size() == 1);
  CHECK(result_of(nothing[0]).tokens.empty());
  CHECK(result_of(nothing[0]).finish_reason == fd::FinishReason::kCancelled);
}

TEST_CASE("scheduler: a text that was over before a pass failed has its end") {
  Running running(2);
  const auto left = new_channel(), fails = new_channel();
  running.add({1}, -1, left);
  running.add({5}, -1, fails);
  running.together.before_step = [&] {
    if (running.together.steps != 3) return;
    left->close();
    running.together.fails = true;
  };
  running.start();
  CHECK(message_of(all_of(*fails).back()) == "a pass that failed");
  CHECK(result_of(all_of(*left).back()).tokens == Tokens{2, 3});
}

TEST_CASE("scheduler: where nobody writes any more, nobody waits for ever") {
  Running running(1);
  const auto writes = new_channel(), waits = new_channel(), late = new_channel();
  running.add({1}, -1, writes);
  running.add({2}, 1, waits);
  running.together.fails_always = true;
  CHECK_THROWS_WITH(running.scheduler.run(), "a pass that failed");
  all_of(*writes);
  CHECK_THROWS_AS(writes->receive(std::chrono::seconds(10)), std::runtime_error);
  CHECK_THROWS_AS(waits->receive(std::chrono::seconds(10)), std::runtime_error);
  running.add({3}, 1, late);
  CHECK(result_of(all_of(*late).back()).finish_reason == fd::FinishReason::kCancelled);
}
