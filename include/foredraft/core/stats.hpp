#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include <foredraft/core/draft_tree.hpp>

namespace foredraft::inline v0 {

/// Where the time of a call went.
/// @units seconds
struct Seconds {
  double prefill = 0;
  double draft = 0;
  double verify = 0;
  double accept = 0;
  double commit = 0;
  double total = 0;  ///< decoding only: all rounds, emit included, without prefill

  Seconds& operator+=(const Seconds& other) noexcept {
    prefill += other.prefill;
    draft += other.draft;
    verify += other.verify;
    accept += other.accept;
    commit += other.commit;
    total += other.total;
    return *this;
  }
  friend Seconds operator-(Seconds a, const Seconds& b) noexcept {
    a.prefill -= b.prefill;
    a.draft -= b.draft;
    a.verify -= b.verify;
    a.accept -= b.accept;
    a.commit -= b.commit;
    a.total -= b.total;
    return a;
  }
};

/// Adds the time of its life to `sum`.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) noexcept : sum_(sum), begin_(Clock::now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point begin_;
};

/// What happened in one call of Decoder::generate.
///
/// Every emitted token is one of four: accepted (it was drafted), bonus (came free after a wholly
/// accepted draft), corrected (replaced a rejected draft) or plain (its round had no draft):
/// emitted == accepted + bonus + corrected + plain.
struct Stats {
  std::int64_t prompt_tokens = 0;  ///< forwarded in prefill or reused
  std::int64_t reused_tokens = 0;  ///< of those, already in the cache
  std::int64_t emitted = 0;
  std::int64_t rounds = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  std::int64_t bonus = 0;
  std::int64_t corrected = 0;
  std::int64_t plain = 0;
  std::array<std::int64_t, DraftTree::kMaxNodes> drafted_per_position{};   ///< [depth - 1]
  std::array<std::int64_t, DraftTree::kMaxNodes> accepted_per_position{};  ///< [depth - 1]
  Seconds seconds;

  /// Several calls taken together.
  Stats& operator+=(const Stats& other) noexcept {
    prompt_tokens += other.prompt_tokens;
    reused_tokens += other.reused_tokens;
    emitted += other.emitted;
    rounds += other.rounds;
    drafted += other.drafted;
    accepted += other.accepted;
    bonus += other.bonus;
    corrected += other.corrected;
    plain += other.plain;
    for (std::size_t i = 0; i < drafted_per_position.size(); ++i) {
      drafted_per_position[i] += other.drafted_per_position[i];
      accepted_per_position[i] += other.accepted_per_position[i];
    }
    seconds += other.seconds;
    return *this;
  }

  double tokens_per_second() const noexcept { return per_second(emitted, seconds.total); }
  double prompt_tokens_per_second() const noexcept {
    return per_second(prompt_tokens - reused_tokens, seconds.prefill);
  }
  /// Tokens a round of drafting makes on average: 1 + accepted / rounds with a draft.
  double acceptance_length() const noexcept {
    const std::int64_t with_draft = rounds - plain;
    return with_draft > 0 ? 1.0 + static_cast<double>(accepted) / static_cast<double>(with_draft)
                          : 1.0;
  }
  double acceptance_rate() const noexcept {
    return drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0.0;
  }

 private:
  static double per_second(std::int64_t count, double seconds) noexcept {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Stats& s) {
  out << "prompt: " << s.prompt_tokens << " tokens, " << s.prompt_tokens_per_second()
      << " tokens/s";
  if (s.reused_tokens > 0) out << " (" << s.reused_tokens << " reused)";
  out << "\ndecode: " << s.emitted << " tokens, " << s.tokens_per_second() << " tokens/s, "
      << s.rounds << " rounds\n";
  if (s.drafted > 0) {
    out << "drafts: " << s.drafted << " tokens, " << s.accepted << " accepted ("
        << 100.0 * s.acceptance_rate() << " %), acceptance length " << s.acceptance_length()
        << "\naccepted per position:";
    for (std::size_t i = 0; i < s.drafted_per_position.size() && s.drafted_per_position[i] > 0;
         ++i) {
      out << ' ' << s.accepted_per_position[i] << '/' << s.drafted_per_position[i];
    }
    out << '\n';
  }
  return out << "seconds: draft " << s.seconds.draft << ", verify " << s.seconds.verify
             << ", accept " << s.seconds.accept << ", commit " << s.seconds.commit << ", prefill "
             << s.seconds.prefill << '\n';
}

}  // namespace foredraft::inline v0
