// Rounds without a model: a text that is known beforehand, drafters that are right with a given
// probability, and a clock that passes take time of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <foredraft/drafter/chain.hpp>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

namespace simulated {

namespace fd = foredraft;

inline double now = 0;
inline double clock() { return now; }

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x632BE59BD9B4E019u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}
inline double unit(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(mix(a, b) >> 11) * 0x1p-53;
}
inline fd::TokenId truth(std::uint64_t position) {
  return static_cast<fd::TokenId>(mix(position, 1) % 1000);
}

/// What a drafter is like; may change while the text is written.
struct Nature {
  double acceptance = 0.5;
  double seconds = 0;  ///< a proposal, or with a model a drafted token
  bool model = false;
  double read_seconds = 0;  ///< a token of the backlog
  int longest = 16;
  float confidence = fd::DraftTree::kUnknown;
  /// How often a model is right that has read nothing, compared with one that has read all.
  double without_context = 1;
  /// Part of a text, in stretches of kStretch tokens, that is written so that this drafter is nearly always
  /// right. Elsewhere one without a model is often silent, and knows that it is less sure.
  double stretches = 0;
  std::uint64_t text = 0;  ///< which one is written: where the stretches are, and what is guessed
  bool fails = false;      ///< it throws, when it has taken its time ...
  bool silent = false;     ///< ... or drafts nothing
};
constexpr std::uint64_t kStretch = 12;

class Drafter : public fd::DrafterBase {
 public:
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;
  struct Snapshot {};

  Drafter(const Nature& nature, std::uint64_t seed) : nature_(&nature), seed_(seed) {}

  int max_depth() const { return nature_->longest; }
  std::optional<int> backlog(int n) const {
    if (!nature_->model) return std::nullopt;
    return n - 1 - read_;
  }
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    const int n = static_cast<int>(context.tokens.size());
    if (!nature_->model) now += nature_->seconds;
    if (nature_->model) {
      const int lacking = n - 1 - read_;
      const int reads = std::min(lacking, limit.read);
      if (reads < lacking) begin_ = n - 1 - reads;
      const int piece = std::min(reads, limit.read_at_once);
      read_ = n - 1 - (reads - piece);
      read_in_all_ += piece;
      now += piece * nature_->read_seconds;
      if (piece < reads) return;
      if (nature_->fails || nature_->silent) now += nature_->seconds;
    }
    if (nature_->fails) throw std::runtime_error("the drafter is broken");
    if (nature_->silent) return;
    levels_ = std::min(limit.depth, nature_->longest);
    const std::uint64_t seed = mix(seed_, nature_->text);
    bool right = true;
    for (int i = 0; i < levels_; ++i) {
      const auto position = static_cast<std::uint64_t>(n + i);
      const bool sure = in_stretch(position);
      if (!nature_->model && nature_->stretches > 0 && !sure && unit(position, seed + 1) > 0.3)
        return;
      if (nature_->model) now += nature_->seconds;
      right = right && unit(position, seed) < (sure ? 0.95 : acceptance_behind(n + i));
      draft.set_confidence(draft.extend(right ? truth(position) : 1000), confidence(sure));
    }
  }
  /// Kept are the rows of the anchor and of accepted tokens, but that of the last level, which a model
  /// does not forward.
  void commit(const fd::Round& round) noexcept {
    if (levels_ > 0) read_ += std::min(static_cast<int>(round.path.size()), levels_);
    levels_ = 0;
  }
  void truncate(int n) noexcept { read_ = std::min(read_, n); }
  void reset() noexcept { read_ = begin_ = 0; }
  Snapshot snapshot() const { return {}; }
  void restore(const Snapshot&) {}

  int read_in_all() const { return read_in_all_; }

 private:
  bool in_stretch(std::uint64_t position) const {
    return unit(position / kStretch, mix(nature_->text, 7)) < nature_->stretches;
  }
  double acceptance_behind(int n) const {
    const double passed_over = static_cast<double>(begin_) / n;
    return nature_->acceptance * (1 - (1 - nature_->without_context) * passed_over);
  }
  float confidence(bool sure) const {
    return nature_->model || nature_->stretches == 0 ? nature_->confidence : sure ? 0.9f : 0.4f;
  }

  const Nature* nature_;
  std::uint64_t seed_;
  int read_ = 0;
  int begin_ = 0;  // of what it has read in a row
  int read_in_all_ = 0;
  int levels_ = 0;  // of the draft of this round
};

/// Seconds of a pass by its rows.
using Pass = std::function<double(int)>;
/// Eight rows cost 1.2 of one, then arithmetic counts.
inline double usual_pass(int rows) {
  return 0.02 * (rows <= 8 ? 1.0 + 0.028 * (rows - 1) : 1.2 + 0.1 * (rows - 8));
}

/// Greedy rounds behind a prompt.
class Rounds {
 public:
  bool fixed = false;  ///< the depth is

  Rounds(fd::Chain<>& drafter, Pass pass, int prompt = 20, int max_tokens = 1 << 20)
      : drafter_(drafter), pass_(std::move(pass)), left_(max_tokens) {
    for (int i = 0; i < prompt; ++i) tokens_.push_back(truth(static_cast<std::uint64_t>(i)));
    round(false);
  }

  /// @return tokens made final
  int round(bool drafting = true) {
    draft_.reset(tokens_.back());
    const double begin = now;
    const int depth = std::min(63, left_ - 1);
    const fd::Limit limit{.depth = depth, .nodes = depth, .fixed = fixed};
    fd::Context context{tokens_, {}, {}};
    context.tokens_left = left_;
    if (drafting) drafter_.propose(context, limit, draft_);
    const double drafted = now;
    now += pass_(draft_.size());
    const auto anchor = static_cast<fd::Position>(tokens_.size()) - 1;
    std::vector<fd::NodeIndex> path{0};
    std::vector<fd::TokenId> fresh;
    for (;;) {
      const fd::TokenId token = truth(tokens_.size() + fresh.size());
      fresh.push_back(token);
      const fd::NodeIndex child = draft_.child_with(path.back(), token);
      if (child < 0) break;
      path.push_back(child);
    }
    const fd::Scores scores;
    drafter_.commit({draft_, path, fresh, scores, anchor, {drafted - begin, now - drafted}});
    tokens_.insert(tokens_.end(), fresh.begin(), fresh.end());
    drafted_ += draft_.drafted();
    left_ -= static_cast<int>(fresh.size());
    return static_cast<int>(fresh.size());
  }
  /// @return tokens a second
  double run(int rounds) {
    const double begin = now;
    int n = 0;
    for (int i = 0; i < rounds; ++i) n += round();
    return n / (now - begin);
  }
  int left() const { return left_; }
  int last_draft() const { return draft_.drafted(); }
  int drafted() const { return drafted_; }

 private:
  fd::Chain<>& drafter_;
  Pass pass_;
  int left_;  // tokens that the call may still make
  std::vector<fd::TokenId> tokens_;
  fd::DraftTree draft_;
  int drafted_ = 0;
};

/// Tokens a second of the best fixed choice: one drafter, always to one depth, or none.
inline double best_fixed(const std::vector<Nature>& natures, const Pass& pass) {
  double best = 1 / pass(1);
  for (const Nature& nature : natures) {
    double path = 1;
    double expected = 1;
    for (int depth = 1; depth <= std::min(nature.longest, 63); ++depth) {
      path *= nature.acceptance;
      expected += path;
      const double seconds = pass(depth + 1) + nature.seconds * (nature.model ? depth : 1);
      best = std::max(best, expected / seconds);
    }
  }
  return best;
}

inline fd::Chain<> chain_of(const std::vector<Nature>& natures, std::uint64_t seed = 100) {
  fd::Chain<> chain;
  for (const Nature& nature : natures) chain.add("drafter", Drafter(nature, ++seed));
  chain.use_clock(&clock);
  return chain;
}

}  // namespace simulated
