#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <foredraft/core/concepts.hpp>
#include <foredraft/drafter/copied_run.hpp>
#include <foredraft/drafter/key_feedback.hpp>
#include <foredraft/drafter/ngram_places.hpp>
#include <foredraft/drafter/ngram_simple.hpp>

namespace foredraft::inline v0 {

/// Compares what followed the earlier occurrences of the text's last `size_n` tokens, and proposes
/// the continuation that at least two thirds of them had.
///
/// Continuations are alike if the tokens that would be drafted are; four different ones are told
/// apart, the rest count as others. Each occurrence is counted once. What is copied is the newest
/// occurrence of the continuation that won, even if the newest of all had another one. As in
/// NgramMapK a continuation is remembered by how much of it was right.
///
/// Memory: that of NgramPlaces and KeyFeedback.
/// @cost a proposal O(max_places * (size_n + size_m)), indexing O(size_n) a token
/// @source llama.cpp, common/ngram-map.cpp ("ngram-map-k4v")
class NgramMapK4V : public DrafterBase {
 public:
  struct Settings {
    int size_n = 12;      ///< tokens that have to match
    int size_m = 48;      ///< tokens proposed at most
    int min_hits = 1;     ///< earlier occurrences without which nothing is proposed
    int max_places = 64;  ///< occurrences that are counted, the newest
  };

  static constexpr Proposal proposal = Proposal::kPointMass;
  static constexpr Shape shape = Shape::kChain;
  static constexpr std::size_t kValues = 4;  ///< continuations that are told apart
  struct Snapshot {
    KeyFeedback::Slots feedback = {};

    static void parts(auto& self, auto& archive) { archive(self.feedback); }
  };

  NgramMapK4V() : NgramMapK4V(Settings{}) {}
  /// @errors kInvalidOption
  explicit NgramMapK4V(Settings settings)
      : settings_((check(settings), settings)),
        places_(settings.size_n),
        feedback_(settings.size_m) {}

  int max_depth() const noexcept { return settings_.size_m; }
  std::size_t bytes() const noexcept { return places_.bytes() + feedback_.bytes(); }

  void propose(const Context& context, Limit limit, DraftTree& draft) {
    places_.index(context.tokens);
    feedback_.expect_nothing();
    const int depth = std::min({limit.depth, limit.nodes, settings_.size_m});
    const auto vote = majority(context.tokens, depth > 0 ? depth : settings_.size_m);
    if (!vote) return;
    const CopiedRun run(context.tokens, vote->next);
    const std::uint64_t key = key_of(context.tokens, vote->next);
    feedback_.expect(key, context.anchor_position(), run);
    run.draft(draft, std::min(depth, feedback_.length(key)),
              run.match(settings_.size_n, NgramSimple::kLongestMatch), vote->share);
  }
  void commit(const Round& round) noexcept { feedback_.commit(round); }

  void truncate(int n) noexcept {
    places_.truncate(n);
    feedback_.truncate(n);
  }
  void reset() noexcept {
    places_.clear();
    feedback_.truncate(0);
  }
  Snapshot snapshot() const { return {feedback_.slots()}; }
  /// The text that comes next may be another one: it is indexed anew, O(text).
  void restore(const Snapshot& snapshot) {
    feedback_.restore(snapshot.feedback);
    places_.clear();
  }

 private:
  struct Value {
    std::int32_t next = 0;  // where its newest occurrence begins
    int count = 0;
  };
  struct Vote {
    std::int32_t next = 0;
    float share = 0;  // of all occurrences
  };

  static void check(const Settings& settings) {
    foredraft::check(NgramSettings{settings.size_n, settings.size_m});
    if (settings.min_hits >= 1 && settings.max_places >= settings.min_hits) return;
    throw Error(ErrorCode::kInvalidOption,
                std::to_string(settings.max_places) + " occurrences counted, of which " +
                    std::to_string(settings.min_hits) + " needed",
                "1 <= min_hits <= max_places");
  }

  /// Of an n-gram and a continuation. @param next  where the continuation begins
  std::uint64_t key_of(std::span<const TokenId> tokens, std::int32_t next) const noexcept {
    const std::uint64_t value = static_cast<std::uint32_t>(tokens[idx(next)]);
    const std::uint64_t hash = (places_.hash(tokens, next - 1) ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
  }

  /// @param length  tokens that make a continuation
  std::optional<Vote> majority(std::span<const TokenId> tokens, int length) const noexcept {
    std::array<Value, kValues> values{};
    std::size_t n_values = 0;
    int seen = 0;
    for (std::int32_t place = places_.newest(tokens);
         place != NgramPlaces::kNone && seen < settings_.max_places;
         place = places_.older(tokens, place)) {
      ++seen;
      const CopiedRun run(tokens, place + 1);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(n_values);
      const auto same = std::find_if(values.begin(), end, [&](const Value& value) {
        return run.same(CopiedRun(tokens, value.next), length);
      });
      if (same != end) {
        ++same->count;
      } else if (n_values < kValues) {
        values[n_values++] = {place + 1, 1};
      }
    }
    if (seen < settings_.min_hits) return std::nullopt;
    const auto best =
        std::max_element(values.begin(), values.end(),
                         [](const Value& a, const Value& b) { return a.count < b.count; });
    if (best->count < 2 * (seen - best->count)) return std::nullopt;
    return Vote{best->next, static_cast<float>(best->count) / static_cast<float>(seen)};
  }

  Settings settings_;
  NgramPlaces places_;
  KeyFeedback feedback_;
};

static_assert(Drafter<NgramMapK4V>);

}  // namespace foredraft::inline v0
