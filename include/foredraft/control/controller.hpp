#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/control/acceptance_estimate.hpp>
#include <foredraft/control/controller_state.hpp>
#include <foredraft/control/merged_draft.hpp>
#include <foredraft/control/pass_cost.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// Decides how much is drafted, and by whom, from what past rounds cost and brought.
///
/// All is weighed in tokens. What a draft gains are the tokens that it is expected to add. What it
/// costs is time, and time costs the tokens that the text would have grown by: at the rate of the
/// last rounds, and at least at that of plain decoding. So a draft that does not pay is not made, and
/// depth 0 is what is left where nothing pays.
///
/// A drafter with a model has to read the text first. That is an investment of an answer whose length
/// nobody knows, so it is paid from what speculation has saved in this text so far, and from a small
/// part of its time; it is made in pieces, and only where the model promises more than is had
/// without it.
/// @cost a few microseconds a round; commits allocate nothing
class Controller {
 public:
  using Clock = double (*)();
  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void use_clock(Clock clock) noexcept { clock_ = clock; }
  /// There are `n` drafters, named by their index.
  void watch(std::size_t n) { drafters_.resize(n); }
  double now() const { return clock_(); }
  /// Another text begins. What was learned stays.
  void begin_text() noexcept {
    if (text_.rounds > 0) {
      answers_[idx(n_answers_++) % answers_.size()] = text_.tokens;
    }
    text_ = {};
  }

  /// What was learned, as if the text ended here; drafters in their order, without names.
  ControllerState state() const {
    Controller ended = *this;
    ended.begin_text();
    ControllerState state{.answers = ended.answers_,
                          .n_answers = ended.n_answers_,
                          .recent_value = recent_value_,
                          .passes = pass_.state(),
                          .recent_tokens = recent_tokens_,
                          .recent_seconds = recent_seconds_};
    for (const Watched& w : drafters_) {
      state.drafters.push_back({.accepted = w.accepted.state(),
                                .benefit = w.benefit,
                                .width = w.width,
                                .asked = w.asked,
                                .seconds = w.seconds,
                                .ask_seconds = w.ask_seconds,
                                .step_seconds = w.step_seconds,
                                .read_seconds = w.read_seconds,
                                .interval = w.turns.interval,
                                .waited = w.turns.waited});
    }
    return state;
  }
  /// Go on from there with another text: as the controller would that the state was taken from. Of
  /// further drafters nothing is known.
  /// @errors kInvalidOption as check(); then nothing has changed
  void restore(const ControllerState& state) {
    check(state);
    std::vector<Watched> drafters(drafters_.size());
    for (std::size_t i = 0; i < std::min(drafters.size(), state.drafters.size()); ++i) {
      const ControllerState::Drafter& from = state.drafters[i];
      Watched& w = drafters[i];
      w.accepted.restore(from.accepted);
      w.benefit = from.benefit;
      w.width = from.width;
      w.asked = from.asked;
      w.seconds = from.seconds;
      w.before = {from.asked, from.seconds};
      w.ask_seconds = from.ask_seconds;
      w.step_seconds = from.step_seconds;
      w.read_seconds = from.read_seconds;
      w.turns = {from.interval, from.waited};
    }
    drafters_ = std::move(drafters);
    pass_.restore(state.passes);
    answers_ = state.answers;
    n_answers_ = state.n_answers;
    recent_value_ = state.recent_value;
    recent_tokens_ = state.recent_tokens;
    recent_seconds_ = state.recent_seconds;
    text_ = {};
  }

  /// A round begins behind `context` committed positions.
  void begin(int context, Limit limit) noexcept {
    fixed_ = limit.fixed;
    const auto pass = pass_.curve(context);
    plain_ = pass[1];
    rate_ = recent_seconds_ > 0 ? std::max(recent_tokens_ / recent_seconds_, 1.0 / plain_)
                                : 1.0 / plain_;
    for (std::size_t rows = 2; rows < prices_.size(); ++rows) {
      prices_[rows] = fixed_ ? 0.0 : kMargin + rate_ * (pass[rows] - plain_);
    }
    reading_ = false;
  }

  /// By number of rows, for the round that has begun.
  const Prices& prices() const noexcept { return prices_; }
  const AcceptanceEstimate& acceptance(std::size_t i) const noexcept {
    return drafters_[i].accepted;
  }

  /// A drafter without a model is worth asking: nearly always, but not where asking takes as long as
  /// its drafts save.
  bool asks(std::size_t i) noexcept {
    Watched& w = drafters_[i];
    const double cost = w.ask_seconds * rate_;
    if (fixed_ || static_cast<double>(w.asked) < kTrials || cost < kMargin / 2 || w.benefit > cost)
      return true;
    return w.turns.due();
  }

  /// What drafter `i`, with a model that lags behind by `backlog` tokens, should do in this round;
  /// nothing where `value` tokens are to be had without it and it promises no more.
  struct Plan {
    Limit limit;
    double value = 0;
  };
  std::optional<Plan> plan(std::size_t i, int backlog, Limit limit, double value) noexcept {
    Watched& w = drafters_[i];
    if (fixed_) return Plan{limit, 1.0};
    if (limit.depth == 0) return std::nullopt;
    recent_value_ += kRecent * (value - recent_value_);
    const double step = w.step_seconds > 0 ? w.step_seconds : kGuessedStep * plain_;
    const double read = w.read_seconds > 0 ? w.read_seconds : kGuessedRead * plain_;
    w.forecast = forecast(w, limit, step);
    w.parked = true;
    const double reading = backlog * read;
    if (backlog <= kShortBacklog) {
      w.forecast.cost += reading * rate_;
      if (w.forecast.value() > value + kModelMargin || trust(w) > step)
        return draft(w, limit, step);
    } else if (text_.rounds >= kSettled) {
      const double saving = expected_saving(w.forecast.value() - std::max(value, recent_value_));
      const double worth = std::max(kWorth * saving, trust(w));
      const double hope = known(w) ? kHope * saving : trust(w);
      const double budget = text_.saved + kStake * text_.plain + hope;
      const int piece = w.read_seconds > 0 ? kPiece : kFirstPiece;
      if (reading <= std::min(worth, budget) && backlog <= piece) return draft(w, limit, step);
      if (reading <= worth && budget >= kLeastPiece * read) {
        reading_ = true;
        w.parked = false;
        const int most = static_cast<int>(std::min<double>(budget / read, piece));
        return Plan{{.depth = 0, .nodes = 0, .read = std::min(most, backlog)}, saving};
      }
    }
    // Left alone, it would never be known whether it has become better.
    const double cost = reading + 2 * step;
    if (text_.probes + cost > kProbe * text_.seconds || !w.turns.due()) return std::nullopt;
    text_.probes += cost;
    return probe(limit, value);
  }

  /// A drafter without a model was asked.
  void asked(std::size_t i, double seconds) noexcept {
    Watched& w = drafters_[i];
    ++w.asked;
    w.seconds += seconds;
    w.ask_seconds += (seconds - w.ask_seconds) / std::min<double>(static_cast<double>(w.asked), 16);
  }
  /// One with a model read `backlog` tokens and drafted `depth` levels, of which `rows` nodes have to
  /// be verified: all of a drawn tree, of a tree of point masses as few as one path.
  void ran(std::size_t i, double seconds, int backlog, int depth, int rows) noexcept {
    Watched& w = drafters_[i];
    ++w.asked;
    w.seconds += seconds;
    if (depth > 0) w.width = static_cast<double>(rows) / depth;
    // The first time is not what it costs later: memory is touched, weights come from far away.
    const auto learn = [](double& mean, double guess, double sample) {
      if (mean == 0) {
        mean = std::min(sample, 2 * guess);
      } else {
        mean += 0.25 * (std::min(sample, 2 * mean) - mean);
      }
    };
    if (depth > 0 && backlog <= kShortBacklog) {
      learn(w.step_seconds, kGuessedStep * plain_, seconds / depth);
    }
    const double reading = seconds - depth * w.step_seconds;
    if (backlog > kShortBacklog && reading > 0) {
      learn(w.read_seconds, kGuessedRead * plain_, reading / backlog);
    }
  }
  /// It drafted to a fixed depth, of which nothing is learned that a choice needs.
  void passed_on(std::size_t i) noexcept { ++drafters_[i].passed_on; }
  void failed(std::size_t i) noexcept { ++drafters_[i].failures; }

  /// What became of a drafter's own draft, verified or not, when `tokens` turned out final: of the
  /// first `size` nodes of `draft`, the anchor counted.
  void learn(std::size_t i, const DraftTree& draft, int size,
             std::span<const TokenId> tokens) noexcept {
    Watched& w = drafters_[i];
    if (size <= 1) return w.accepted.relax();  // 0: it was never asked
    // By parent: untried, or tried in vain, or one of the children was right.
    enum Level : std::uint8_t {
      kUntried,
      kMissed,
      kHit
    };
    std::array<Level, DraftTree::kMaxNodes> level{};
    std::array<bool, DraftTree::kMaxNodes> final{};
    final[0] = true;
    for (NodeIndex node = 1; node < size; ++node) {
      const int depth = draft.depth(node);
      const std::size_t parent = idx(draft.parent(node));
      if (!final[parent] || idx(depth) > tokens.size()) continue;
      const bool right = tokens[idx(depth - 1)] == draft.token(node);
      final[idx(node)] = right;
      w.accepted.learn(draft.confidence(node), depth, right);
      if (level[parent] != kHit) level[parent] = right ? kHit : kMissed;
    }
    for (NodeIndex node = 0; node < size; ++node) {
      if (level[idx(node)] != kUntried) {
        w.accepted.learn_level(draft.depth(node) + 1, level[idx(node)] == kHit);
      }
    }
  }

  /// What the round cost and brought.
  void learn(const Round& round) noexcept {
    pass_.learn(round.draft.size(), round.anchor_position, round.cost.verify);
    plain_ = pass_.curve(round.anchor_position)[1];
    const auto tokens = static_cast<double>(round.tokens.size());
    const double seconds = round.cost.draft + round.cost.verify;
    if (!reading_) {  // an investment says nothing of how fast the text grows without it
      recent_tokens_ = recent_tokens_ * (1 - kRecent) + tokens;
      recent_seconds_ = recent_seconds_ * (1 - kRecent) + seconds;
    }
    reading_ = false;
    text_.saved += tokens * plain_ - seconds;
    text_.plain += tokens * plain_;
    text_.seconds += seconds;
    text_.tokens += static_cast<int>(round.tokens.size());
    ++text_.rounds;
    for (Watched& w : drafters_) w.benefit *= 1 - kRecent;
    // One drafter that was passed on may number its nodes in its own way.
    const auto drafter_of = [&](NodeIndex node) -> Watched& {
      return drafters_[std::min(idx(round.draft.origin(node)), drafters_.size() - 1)];
    };
    for (NodeIndex node = 1; node < round.draft.size(); ++node) ++drafter_of(node).drafted;
    for (std::size_t i = 1; i < round.path.size(); ++i) {
      Watched& w = drafter_of(round.path[i]);
      ++w.accepted_tokens;
      w.benefit += kRecent;
    }
  }

  /// One line on a drafter, for people.
  std::string describe(std::size_t i) const {
    const Watched& w = drafters_[i];
    const auto format = [](const char* pattern, auto... values) {
      std::array<char, 200> line{};
      std::snprintf(line.data(), line.size(), pattern, values...);
      return std::string(line.data());
    };
    std::string line = format("asked %lld times, %.3g ms in all; ",
                              static_cast<long long>(w.asked - w.before.asked + w.passed_on),
                              1e3 * (w.seconds - w.before.seconds));
    if (w.drafted == 0) {
      line += "no draft that was worth verifying";
    } else {
      line +=
          format("%lld tokens verified, %lld accepted (%.0f %%)", static_cast<long long>(w.drafted),
                 static_cast<long long>(w.accepted_tokens),
                 100.0 * static_cast<double>(w.accepted_tokens) / static_cast<double>(w.drafted));
    }
    if (w.failures > 0) line += format("; failed %lld times", static_cast<long long>(w.failures));
    if (w.parked && w.forecast.gain > 0) {
      const double ratio = w.forecast.cost / w.forecast.gain;
      line += ratio >= 1 ? format("; parked: drafting would cost %.2g times what it gains", ratio)
                         : "; parked: reading the text would cost more than drafts can save";
    }
    return line;
  }

 private:
  // Tokens: smaller gains are noise, and more so where they come dear.
  static constexpr double kMargin = 0.02;
  static constexpr double kModelMargin = 0.08;
  static constexpr double kRecent = 0.05;  // weight of the newest round: some 20 of them count
  static constexpr double kStake = 0.02;   // part of a text's plain time that may be risked
  // Parts of the time that a model is expected to save: what reading may cost at all, and what may be
  // paid for it before anything was saved.
  static constexpr double kWorth = 0.5;
  static constexpr double kHope = 0.25;
  // What may go into getting to know a model: plain passes, once for all texts, and a part of each.
  static constexpr double kFaith = 4;
  static constexpr double kTrust = 0.08;
  static constexpr double kProbe = 0.01;  // part of a text's time that is spent on looking again
  static constexpr double kTrials = 32;
  static constexpr int kShortBacklog = 8;  // tokens that share a pass with the anchor, or nearly so
  // Tokens of a backlog that are read in one round: at most, the first time, and at least, because a
  // smaller piece reads all weights for too little.
  static constexpr int kPiece = 256;
  static constexpr int kFirstPiece = 16;
  static constexpr int kLeastPiece = 16;
  static constexpr int kSettled = 4;  // rounds before which nothing is invested
  static constexpr int kShortAnswer = 48;
  // Of a plain pass of the target, until it is measured.
  static constexpr double kGuessedStep = 0.3;
  static constexpr double kGuessedRead = 0.06;

  /// Every so many rounds, less and less often.
  struct Turns {
    int interval = 4;
    int waited = 0;

    bool due() noexcept {
      if (++waited < interval) return false;
      waited = 0;
      interval = std::min(interval * 2, 512);
      return true;
    }
  };
  struct Forecast {
    int depth = 1;
    double gain = 0;  // tokens
    double cost = 0;
    double value() const noexcept { return gain - cost; }
  };
  struct Watched {
    AcceptanceEstimate accepted;
    std::int64_t asked = 0;
    std::int64_t passed_on = 0;
    std::int64_t failures = 0;
    std::int64_t drafted = 0;  // of those that were verified
    std::int64_t accepted_tokens = 0;
    double seconds = 0;
    double ask_seconds = 0;   // a proposal without a model
    double step_seconds = 0;  // a level of a draft with one ...
    double read_seconds = 0;  // ... and a token of its backlog
    double width = 1;         // nodes to verify, a level
    double benefit = 0;       // tokens a round lately
    Turns turns;
    Forecast forecast;
    bool parked = false;
    struct {
      std::int64_t asked = 0;
      double seconds = 0;
    } before;  // this controller was restored; it describes what came behind
  };
  struct Text {
    double saved = 0;  // seconds, compared with plain decoding
    double plain = 0;  // seconds that plain decoding would have taken
    double seconds = 0;
    int tokens = 0;
    double probes = 0;  // of the seconds, for drafters that were not expected to pay
    int rounds = 0;
  };

  /// Tokens that this answer will still have: as many as the last ones had beyond this length. Where
  /// they say nothing, as many as it has, unless it may be a short one.
  double remaining() const noexcept {
    double sum = text_.tokens >= kShortAnswer ? text_.tokens : 0;
    int longer = 1;
    const auto known = std::min<std::int64_t>(n_answers_, std::ssize(answers_));
    for (std::int64_t i = 0; i < known; ++i) {
      if (answers_[idx(i)] > text_.tokens) sum += answers_[idx(i)] - text_.tokens, ++longer;
    }
    return sum / longer;
  }

  /// Seconds that the rest of the answer takes less, where each round brings `gain` tokens more.
  double expected_saving(double gain) const noexcept {
    return gain > 0 ? remaining() * plain_ * gain / (1 + gain) : 0.0;
  }
  static bool known(const Watched& w) noexcept { return w.accepted.trials() >= kTrials; }
  /// Seconds that may go into getting to know a model: a part of this text, and not more than a few
  /// plain passes for all of them.
  double trust(const Watched& w) const noexcept {
    if (known(w)) return 0.0;
    return std::clamp(kFaith * plain_ - w.seconds, 0.0, kTrust * text_.plain);
  }

  static Plan probe(Limit limit, double value) noexcept {
    limit.depth = std::min(limit.depth, 2);
    return {limit, value};
  }
  Plan draft(Watched& w, Limit limit, double step) const noexcept {
    w.parked = false;
    limit.depth =
        w.step_seconds > 0 ? w.forecast.depth : 1;  // the first time, to see what it costs
    limit.stop_below = static_cast<float>(step * rate_);
    return {limit, w.forecast.value()};
  }

  /// The depth that promises most.
  Forecast forecast(const Watched& w, Limit limit, double step) const noexcept {
    Forecast best;
    double path = 1;
    double gain = 0;
    for (int depth = 1; depth <= limit.depth; ++depth) {
      path *= w.accepted.rate_at(depth);
      gain += path;
      const int rows = std::min(1 + static_cast<int>(depth * w.width), DraftTree::kMaxNodes);
      const Forecast here{depth, gain, prices_[idx(rows)] + depth * step * rate_};
      if (depth == 1 || here.value() > best.value()) best = here;
    }
    return best;
  }

  Clock clock_ = &seconds;
  std::vector<Watched> drafters_;
  PassCost pass_;
  Prices prices_{};
  Text text_;
  std::array<std::int32_t, ControllerState::kAnswers> answers_{};  // lengths of the last texts
  std::int64_t n_answers_ = 0;
  bool fixed_ = false;
  bool reading_ = false;  // this round pays for a model's backlog
  double plain_ = 1;      // seconds of a pass of one row
  double rate_ = 1;       // tokens a second that time is worth
  double recent_tokens_ = 0;
  double recent_seconds_ = 0;
  double recent_value_ = 0;  // of what drafters without a model promise
};

}  // namespace foredraft::inline v0
