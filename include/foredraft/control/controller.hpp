#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/control/acceptance_estimate.hpp>
#include <foredraft/control/answer_lengths.hpp>
#include <foredraft/control/back_off.hpp>
#include <foredraft/control/controller_state.hpp>
#include <foredraft/control/drafter_report.hpp>
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
/// A drafter with a model has to read the text first. That is an investment in an answer whose length
/// nobody knows. It is made where the rest of the answer can be expected to save more than it costs,
/// with as many of the last tokens as promise most, and never risks more than a small part of the
/// text's time beside what was saved before (worth_reading).
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
    if (text_.rounds > 0) {  // a text may be said to begin more than once
      answers_.add(answer());
      for (Watched& w : drafters_) w.doubt = doubt_behind(w);
    }
    text_ = {};
    drafting_ = invested_ = 0;  // of a round of a fixed depth, or one that failed
    for (Watched& w : drafters_) {
      w.right = 0;
      w.spent = 0;
      w.invested = w.parked = w.muted = false;
      w.failing.reset();
      w.silent = 0;
    }
  }

  /// What was learned, as if the text ended here; drafters in their order, without names.
  ControllerState state() const {
    Controller ended = *this;
    ended.begin_text();
    ControllerState state{.answers = ended.answers_.last(),
                          .n_answers = ended.answers_.n(),
                          .recent_value = recent_value_,
                          .passes = pass_.state(),
                          .recent = recent_,
                          .recent_slow = slow_};
    for (const Watched& w : ended.drafters_) {
      state.drafters.push_back({.accepted = w.accepted.state(),
                                .benefit = w.benefit,
                                .width = w.width,
                                .asked = w.asked,
                                .seconds = w.seconds,
                                .ask_seconds = w.ask_seconds,
                                .step_seconds = w.step_seconds,
                                .read_seconds = w.read_seconds,
                                .doubt = w.doubt,
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
      w.told = DrafterReport{.asked = -from.asked, .seconds = -from.seconds};
      w.ask_seconds = from.ask_seconds;
      w.step_seconds = from.step_seconds;
      w.read_seconds = from.read_seconds;
      w.doubt = from.doubt;
      w.turns = {from.interval, from.waited};
    }
    drafters_ = std::move(drafters);
    pass_.restore(state.passes);
    answers_ = AnswerLengths(state.answers, state.n_answers);
    recent_value_ = state.recent_value;
    recent_ = state.recent;
    slow_ = state.recent_slow;
    text_ = {};
  }

  /// A round begins behind `context` committed positions, of a text that will have at most
  /// `tokens_left` tokens more.
  void begin(int context, Limit limit, int tokens_left = std::numeric_limits<int>::max()) noexcept {
    fixed_ = limit.fixed;
    context_ = context;
    tokens_left_ = tokens_left;
    drafting_ = invested_ = 0;
    reading_ = copying_ = false;
    if (fixed_) return;
    plain_ = passes()[1];
    set_prices(recent_);
  }
  /// Drafters without a model promise `value` tokens in this round.
  void promised(double value) noexcept {
    if (fixed_) return;
    copying_ = value >= kCopying;
    if (!copying_) recent_value_ += kRecent * (value - recent_value_);
  }

  /// By number of rows, for the round that has begun; where the depth is fixed rows cost nothing.
  const Prices& prices() const noexcept { return fixed_ ? kFree : prices_; }
  const AcceptanceEstimate& acceptance(std::size_t i) const noexcept {
    return drafters_[i].accepted;
  }

  /// A drafter without a model is worth asking: nearly always, but not where asking takes as long as
  /// its drafts save.
  bool asks(std::size_t i) noexcept {
    Watched& w = drafters_[i];
    const double cost = w.ask_seconds * rate_;
    if (fixed_) return true;
    w.muted = static_cast<double>(w.asked) >= kTrials && cost >= kMargin / 2 && w.benefit <= cost;
    if (w.muted) return w.turns.due();
    return !w.failing || w.failing->due();
  }

  /// What drafter `i`, with a model that lags behind by `backlog` tokens, should do in this round;
  /// nothing where `value` tokens are to be had without it and it promises no more.
  struct Plan {
    Limit limit;
    double value = 0;
    bool invests = false;  ///< in reading, which later drafts have to pay for
  };
  std::optional<Plan> plan(std::size_t i, int backlog, Limit limit, double value) noexcept {
    Watched& w = drafters_[i];
    if (fixed_) return Plan{limit, 1.0};
    if (limit.depth == 0) return std::nullopt;
    if (!copying_) set_prices(slow_);
    const double step = w.step_seconds > 0 ? w.step_seconds : kGuessedStep * plain_;
    const double read = w.read_seconds > 0 ? w.read_seconds : guessed_read();
    w.forecast = forecast(w, limit, step);
    w.parked = true;
    if (!w.failing && backlog <= kShortBacklog) {
      w.forecast.cost += backlog * read * rate_;
      if (w.forecast.value() > value + kMargin || trust(w) > step) return draft(w, limit, step);
    } else if (!w.failing && text_.rounds >= kSettled && !copying_) {
      const int tokens =
          worth_reading(w, backlog, limit, std::max(value, recent_value_), step, read);
      if (tokens > 0) {
        limit.read = reading_of(tokens, backlog);
        Plan plan = draft(w, limit, step);
        plan.invests = true;
        const int piece = piece_of(read);
        if (tokens >= piece + kReadings.front()) {  // a small rest is not worth a round of its own
          plan.limit.read_at_once = piece;
          plan.value = 0;  // the round only reads
        }
        return plan;
      }
    }
    // Left alone, it would never be known whether it has become better.
    limit.read = reading_of(shortened(kReadings.front(), backlog), backlog);
    const double cost = std::min(backlog, limit.read) * read + 2 * step;
    BackOff& turns = w.failing ? *w.failing : w.turns;
    if (text_.probes + cost > kProbe * text_.seconds || !turns.due()) return std::nullopt;
    text_.probes += cost;
    return probe(limit, value);
  }

  /// A plan of drafter `i` is carried out.
  void chosen(std::size_t i, const Plan& plan) noexcept {
    reading_ = plan.invests;
    drafters_[i].invested = drafters_[i].invested || plan.invests;
  }

  /// A drafter without a model was asked.
  void asked(std::size_t i, double seconds) noexcept {
    Watched& w = drafters_[i];
    w.failing.reset();
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
    if (!fixed_) w.spent += seconds;
    if (depth > 0) {
      w.width = static_cast<double>(rows) / depth;
      w.failing.reset();
      w.silent = 0;
    }
    // The first time is not what it costs later: memory is touched, weights come from far away.
    const auto learn = [](double& mean, double guess, double sample) {
      if (mean == 0) {
        mean = std::min(sample, 2 * guess);
      } else {
        mean += 0.25 * (std::min(sample, 2 * mean) - mean);
      }
    };
    const double step_guess = kGuessedStep * passes()[1];
    const double read_guess = guessed_read();
    if (backlog <= kShortBacklog) {
      if (depth > 0) learn(w.step_seconds, step_guess, seconds / depth);
      drafting_ = depth > 0 ? depth * w.step_seconds : seconds;
      // Once in a while silence is no harm, as where a model writes an end.
      if (depth == 0 && !fixed_ && ++w.silent >= kSilent && !w.failing) w.failing.emplace();
      return;
    }
    // While a level was not measured it takes what was guessed, unless that is clearly too little.
    const double dearer = seconds / (backlog * read_guess + depth * step_guess);
    if (w.step_seconds == 0 && dearer > 3) w.step_seconds = step_guess * std::min(dearer, 4.0);
    const double step = w.step_seconds > 0 ? w.step_seconds : step_guess;
    drafting_ = depth * step;
    const double reading = seconds - depth * step;
    if (reading > 0) learn(w.read_seconds, read_guess, reading / backlog);
    invested_ = backlog * w.read_seconds;
  }
  /// It drafted to a fixed depth, of which nothing is learned that a choice needs.
  void passed_on(std::size_t i) noexcept { ++drafters_[i].told.asked; }
  void failed(std::size_t i) noexcept { ++drafters_[i].told.failures; }
  /// It failed where it should have drafted, which took `seconds`. Unless the depth is fixed it is tried
  /// less and less often in this text, until it drafts; so is a model that drafts nothing, again and again.
  void threw(std::size_t i, double seconds) noexcept {
    Watched& w = drafters_[i];
    ++w.asked;
    w.seconds += seconds;
    if (fixed_) return;
    w.spent += seconds;
    drafting_ = seconds;
    if (!w.failing) w.failing.emplace();
  }

  /// What became of a drafter's own draft, verified or not, when `tokens` turned out final: of the
  /// first `size` nodes of `draft`, the anchor counted.
  void learn(std::size_t i, const DraftTree& draft, int size,
             std::span<const TokenId> tokens) noexcept {
    Watched& w = drafters_[i];
    if (size <= 1) return fixed_ ? void() : w.accepted.relax();  // not asked, or nothing said
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
      if (right) ++w.right;
      w.accepted.learn(draft.confidence(node), depth, right);
      if (level[parent] != kHit) level[parent] = right ? kHit : kMissed;
    }
    for (NodeIndex node = 0; node < size; ++node) {
      if (level[idx(node)] != kUntried) {
        w.accepted.learn_level(draft.depth(node) + 1, level[idx(node)] == kHit);
      }
    }
  }

  /// What the round cost and brought. One of a fixed depth says what a pass costs, and is in no account;
  /// the first of a text, in which nobody is asked, comes without begin().
  void learn(const Round& round) noexcept {
    const auto tokens = static_cast<int>(round.tokens.size());
    ++text_.rounds;
    text_.length += tokens;
    count(round);
    context_ = round.anchor_position;
    const auto rows = idx(round.draft.size());
    const double expected = fixed_ ? 0.0 : passes()[rows];
    pass_.learn(round.draft.size(), round.anchor_position, round.cost.verify);
    if (std::exchange(fixed_, false)) return;
    plain_ = passes()[1];
    balance(round, rows > 1 ? std::min(passes()[rows], expected + kAdvance * plain_) : plain_);
    const double seconds = round.cost.draft + round.cost.verify;
    if (!reading_) {  // an investment says nothing of how fast the text grows without it
      for (ControllerState::Growth* growth : {&recent_, &slow_}) {
        if (growth == &slow_ && copying_) break;
        growth->tokens = growth->tokens * (1 - kRecent) + tokens;
        growth->seconds = growth->seconds * (1 - kRecent) + seconds;
      }
    }
    text_.tokens += tokens;
    if (!copying_) text_.slow_tokens += tokens;
    text_.saved += tokens * plain_ - seconds;
    text_.plain += tokens * plain_;
    text_.seconds += seconds;
    reading_ = copying_ = false;
  }

  /// What a drafter did, and why it drafts nothing now. @cost O(1)
  DrafterReport report(std::size_t i) const noexcept {
    const Watched& w = drafters_[i];
    DrafterReport report = w.told;
    report.asked += w.asked;
    report.seconds += w.seconds;
    using Parked = DrafterReport::Parked;
    if (w.failing) {
      report.parked = Parked::kFailing;
    } else if (w.muted) {
      report.parked = Parked::kAsking;
    } else if (w.parked && w.forecast.gain > 0) {
      report.ratio = w.forecast.cost / w.forecast.gain;
      report.parked = w.forecast.cost >= kOutOfReach ? Parked::kRisk
                      : report.ratio >= 1            ? Parked::kDrafting
                                                     : Parked::kReading;
    }
    return report;
  }

 private:
  // Tokens: smaller gains are noise.
  static constexpr double kMargin = 0.02;
  static constexpr double kRecent = 0.05;  // weight of the newest round: some 20 of them count
  // What reading may cost at all: so much of the time that it is expected to save, and of that of the
  // answer as long as it may become.
  static constexpr double kWorth = 0.5;
  static constexpr double kStake = 0.03;
  static constexpr double kForgive = 0.9;  // of doubt, with each text without an investment
  // What all drafts of a text may lose: so many plain passes at its beginning, and so many a token.
  static constexpr double kAdvance = 0.25;
  static constexpr double kLoss = 0.015;
  static constexpr double kOutOfReach = 1e9;  // tokens a row: the price of what would lose more
  // What may go into getting to know a model: plain passes, once for all texts, and a part of each.
  static constexpr double kFaith = 3;
  static constexpr double kTrust = 0.03;
  static constexpr double kProbe = 0.005;  // part of a text's time that is spent on looking again
  static constexpr double kTrials = 32;
  static constexpr int kSilent = 4;        // rounds without a draft, until a model is tried seldom
  static constexpr double kCopying = 1.5;  // tokens that drafters without a model promise, at least
  static constexpr double kFew = 8;        // tokens that say little of how much a text copies
  static constexpr int kShortBacklog = 8;  // tokens that share a pass with the anchor, or nearly so
  // How many tokens of a longer backlog may be read.
  static constexpr std::array<int, 5> kReadings = {32, 64, 128, 256, 512};
  static constexpr double kPause = 4;  // plain passes that one token waits for it
  // A guess, between what a chat loses without its beginning, which is little, and a summary, which
  // is nearly all: so often a model is right that has read next to nothing of what it lacks, compared
  // with one that has read it all.
  static constexpr double kWithoutContext = 0.6;
  static constexpr int kFirstDepth = 1;        // of a text in which a model has not been right yet
  static constexpr int kSettled = 4;           // rounds before which nothing is invested
  static constexpr double kGuessedStep = 0.3;  // of a plain pass, until it is measured
  static constexpr Prices kFree{};

  struct Forecast {
    int depth = 1;
    double gain = 0;  // tokens
    double cost = 0;
    double value() const noexcept { return gain - cost; }
  };
  struct Watched {
    AcceptanceEstimate accepted;
    std::int64_t asked = 0;
    double seconds = 0;
    double ask_seconds = 0;   // a proposal without a model
    double step_seconds = 0;  // a level of a draft with one ...
    double read_seconds = 0;  // ... and a token of its backlog
    double width = 1;         // nodes to verify, a level
    double benefit = 0;       // tokens a round lately
    BackOff turns;            // to look again at a drafter that does not pay
    Forecast forecast;
    bool parked = false;
    bool muted = false;              // to ask it takes as long as it saves
    int silent = 0;                  // runs of a model in a row without a draft
    std::optional<BackOff> failing;  // it threw the last time, or is silent
    DrafterReport told;     // less what a restored one did before, which is in asked and seconds
    int right = 0;          // tokens that it drafted in this text
    double spent = 0;       // seconds in this text, with a model
    bool invested = false;  // in what it read of this text
    double doubt = 1;       // what an investment has to bring more, because others brought a loss
  };
  struct Text {
    double saved = 0;  // seconds, compared with plain decoding
    double plain = 0;  // seconds that plain decoding would have taken
    double seconds = 0;
    double won = 0;       // plain passes: what drafts brought, less what they cost
    int length = 0;       // tokens, those of rounds of a fixed depth among them ...
    int tokens = 0;       // ... or not
    int slow_tokens = 0;  // where drafters without a model promised little
    double probes = 0;    // of the seconds, for drafters that were not expected to pay
    int rounds = 0;
  };

  /// Behind the text that ends: a loss doubles the doubt in whom something was invested in.
  double doubt_behind(const Watched& w) const noexcept {
    if (!w.invested) return std::max(1.0, kForgive * w.doubt);
    return text_.saved < 0 ? std::min(2 * w.doubt, ControllerState::kMostDoubt) : 1.0;
  }

  /// Of the target, behind the round's context.
  const PassCost::Curve& passes() const noexcept { return pass_.curve(context_); }

  /// What time is worth in this round, and rows cost: at the rate of rounds like it. What a text copies
  /// it copies anyway, so a token that is drafted elsewhere saves one that would have taken long.
  void set_prices(const ControllerState::Growth& growth) noexcept {
    rate_ = 1.0 / plain_;
    if (growth.seconds > 0) rate_ = std::max(rate_, growth.tokens / growth.seconds);
    // What more rows cost than were ever measured is a guess, good for twice as many.
    const auto known = std::min(2 * idx(std::max(pass_.most_rows(), 1)), prices_.size() - 1);
    const double most = credit() * plain_;
    for (std::size_t rows = 2; rows < prices_.size(); ++rows) {
      const double longer = passes()[rows] - plain_;
      const bool affordable = rows <= known && longer <= most;
      prices_[rows] =
          affordable ? kMargin + rate_ * longer : kOutOfReach * static_cast<double>(rows);
    }
  }

  /// What a draft may cost, in plain passes: what those before it have brought to this text, and a small
  /// part of the text on top. So neither a bad beginning nor a guess that looked good makes a text slower
  /// than plain decoding by more than that part; and where drafts are right, a long one comes soon.
  double credit() const noexcept { return kAdvance + kLoss * text_.tokens + text_.won; }

  /// What the round's draft brought, less what it should cost: a pass that was late, or a model that
  /// ran for the first time, is not the draft's doing. An investment has bounds of its own, but what it
  /// takes of what was won cannot be spent a second time.
  /// @param pass  of so many rows @units seconds
  void balance(const Round& round, double pass) noexcept {
    const double cost = pass - plain_ + (reading_ ? 0.0 : drafting_);
    text_.won += static_cast<double>(round.tokens.size()) - 1 - cost / plain_;
    text_.won -= std::clamp(text_.won, 0.0, invested_ / plain_);
    drafting_ = invested_ = 0;
  }

  /// Whose nodes were verified, and whose accepted.
  void count(const Round& round) noexcept {
    const double newest = fixed_ ? 0.0 : kRecent;
    for (Watched& w : drafters_) w.benefit *= 1 - newest;
    const auto add = [&](int i, int verified, std::size_t accepted) {
      Watched& w = drafters_[std::min(idx(i), drafters_.size() - 1)];
      w.told.verified += verified;
      w.told.accepted += static_cast<std::int64_t>(accepted);
      w.benefit += newest * static_cast<double>(accepted);
    };
    // Who drafts may have numbered its nodes in its own way.
    if (drafters_.size() == 1) return add(0, round.draft.drafted(), round.path.size() - 1);
    for (NodeIndex node = 1; node < round.draft.size(); ++node) add(round.draft.origin(node), 1, 0);
    for (const NodeIndex node : round.path.subspan(1)) add(round.draft.origin(node), 0, 1);
  }

  /// Seconds that a model takes to read a token: as a row of a long pass of the target, in small.
  double guessed_read() const noexcept {
    constexpr int kLong = PassCost::kMostRows;
    return kGuessedStep * (passes()[kLong] - passes()[kLong / 2]) / (kLong / 2);
  }

  AnswerLengths::Answer answer() const noexcept {
    return {std::max(context_ - text_.length, 0), text_.length};
  }

  /// Seconds that `rest` tokens of the answer take less, where each round that copies nothing brings
  /// `gain` tokens more than `value`.
  double expected_saving(double rest, double gain, double value) const noexcept {
    if (gain <= 0) return 0.0;
    const double slow = (text_.slow_tokens + kFew) / (text_.tokens + kFew);
    return rest * slow / rate_ * gain / (1 + value + gain);
  }
  /// Of a backlog, the number of last tokens that a model should read; 0 where none is worth it.
  int worth_reading(const Watched& w, int backlog, Limit limit, double value, double step,
                    double read) const noexcept {
    const AnswerLengths::Rest rest = answers_.rest(answer(), tokens_left_);
    const double risk = plain_ * std::max(kStake * (text_.tokens + rest.safe) - kAdvance, 0.0);
    double budget = std::max(risk, trust(w)) + text_.saved;  // losses of this text count, too
    if (!known(w)) budget = std::min(budget, kFaith * plain_);
    int best = 0;
    double most = 0;
    for (const int reading : kReadings) {
      const int tokens = shortened(reading, backlog);
      const double cost = tokens * read;
      if (cost > budget) break;
      const double context = kWithoutContext + (1 - kWithoutContext) * tokens / backlog;
      const double gain = forecast(w, limit, step, context).value() - value;
      const double worth =
          std::max(kWorth / w.doubt * expected_saving(rest.mean, gain, value), trust(w));
      if (worth - cost > most) most = worth - cost, best = tokens;
      if (tokens == backlog) break;
    }
    return best;
  }
  /// So many tokens of a backlog, or all of it: to begin anew forgets what was read before, which may
  /// be more than what is lacking.
  int shortened(int tokens, int backlog) const noexcept {
    const bool forgets = backlog <= kReadings.back() && 2 * backlog < context_;
    return forgets ? backlog : std::min(tokens, backlog);
  }
  /// Tokens that one round may read, a multiple of the least reading.
  int piece_of(double read) const noexcept {
    constexpr int kLeast = kReadings.front();
    const double times = kPause * plain_ / (read * kLeast);
    return kLeast * static_cast<int>(std::clamp(times, 1.0, double{kReadings.back() / kLeast}));
  }
  /// In Limit::read. A drafter that reads another vocabulary knows its backlog but roughly, and should
  /// not begin anew for that.
  static int reading_of(int tokens, int backlog) noexcept {
    return tokens < backlog ? tokens : tokens + tokens / 4 + kShortBacklog;
  }
  static bool known(const Watched& w) noexcept { return w.accepted.trials() >= kTrials; }
  /// Seconds that may go into getting to know a model: few of this text, and few of all of them.
  double trust(const Watched& w) const noexcept {
    if (known(w)) return 0.0;
    const double left = std::min(kFaith * plain_ - w.seconds, kTrust * text_.plain - w.spent);
    return std::max(left, 0.0);
  }

  static Plan probe(Limit limit, double value) noexcept {
    limit.depth = std::min(limit.depth, 2);
    return {limit, value};
  }
  Plan draft(Watched& w, Limit limit, double step) const noexcept {
    w.parked = false;
    // The first time, to see what it costs. What other texts made of its drafts may not hold in this one.
    const int most = w.step_seconds > 0 ? kFirstDepth + w.right : 1;
    limit.depth = std::min(w.forecast.depth, most);
    limit.stop_below = static_cast<float>(step * rate_);
    // Half of what one more row costs: no drafter's confidence is exact.
    const std::size_t chain = idx(std::min(1 + limit.depth, DraftTree::kMaxNodes - 1));
    limit.prune_below = static_cast<float>((prices_[chain + 1] - prices_[chain]) / 2);
    return {limit, w.forecast.value()};
  }

  /// The depth that promises most, of those that the text can pay for.
  /// @param context  acceptance, in parts of what it was
  Forecast forecast(const Watched& w, Limit limit, double step,
                    double context = 1.0) const noexcept {
    Forecast best;
    double path = 1;
    double gain = 0;
    for (int depth = 1; depth <= limit.depth; ++depth) {
      path *= context * w.accepted.rate_at(depth);
      gain += path;
      const int rows = std::min(1 + static_cast<int>(depth * w.width), DraftTree::kMaxNodes);
      const Forecast here{depth, gain, prices_[idx(rows)] + depth * step * rate_};
      const double seconds = depth * step + passes()[idx(rows)] - plain_;
      if (depth > 1 && seconds > credit() * plain_) break;
      if (depth == 1 || here.value() > best.value()) best = here;
    }
    return best;
  }

  Clock clock_ = &seconds;
  std::vector<Watched> drafters_;
  // Behind a pass all memory is cold: what a round of a fixed depth touches lies together.
  bool fixed_ = false;
  bool reading_ = false;  // this round pays for a model's backlog
  bool copying_ = false;  // ... or drafters without a model promise much
  int context_ = 0;
  int tokens_left_ = std::numeric_limits<int>::max();
  double drafting_ = 0;  // seconds of the model that drafts in this round, but for reading ...
  double invested_ = 0;  // ... and what reading should take
  Text text_;
  PassCost pass_;
  Prices prices_{};
  AnswerLengths answers_;  // of the last texts
  double plain_ = 1;       // seconds of a pass of one row
  double rate_ = 1;        // tokens a second that time is worth
  ControllerState::Growth recent_;
  ControllerState::Growth slow_;  // in rounds that copied nothing
  double recent_value_ = 0;       // of what drafters without a model promise in such rounds
};

}  // namespace foredraft::inline v0
