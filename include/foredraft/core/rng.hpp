#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/reduce.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// What a random number decides. Different purposes never share numbers.
enum class Purpose : std::uint8_t {
  kTargetSample,  ///< the target's token at an absolute position; node is 0
  kDraft,         ///< a drafted token
  kAccept,        ///< accept test of a node
  kResidual,      ///< the token after the last accepted one
};

/// Names one random decision. For kTargetSample `position` is that of the sampled token, so the
/// same seed gives the same text whatever was drafted; a drafter may look at the same numbers, as
/// point mass, because whatever is drafted the rules draw with other ones. For all others it is the
/// position of the round's anchor, which no two rounds share: keyed by the token's own position, a
/// second round would see the first one's numbers again and the law would be wrong.
struct RngKey {
  Purpose purpose = Purpose::kTargetSample;
  Position position = 0;
  NodeIndex node = 0;

  friend bool operator==(const RngKey&, const RngKey&) = default;
};

/// Weights of the ids from 0 on, worked out only where somebody looks. They come in runs of kRun
/// neighbouring ids (the last one may be shorter), each with a bound that is known beforehand.
class LazyWeights {
 public:
  static constexpr std::size_t kRun = 128;

  virtual ~LazyWeights() = default;

  /// For each run at least what sum() makes of its weights; 0 only where all of them are.
  virtual std::span<const double> bounds() const noexcept = 0;
  /// The weights of a run, none below 0. Good until the next call.
  virtual std::span<const double> run(std::size_t i) noexcept = 0;
};

/// Source of all randomness. Counter-based: equal keys give equal answers, there is no state to
/// save. Tests derive from it to follow every outcome of every decision.
class Rng {
 public:
  virtual ~Rng() = default;

  /// True with the given probability; never for 0, always for 1 and above.
  virtual bool bernoulli(RngKey key, double probability) = 0;

  /// Index i with probability weights[i] / sum(weights). The noise belongs to the key and to ids,
  /// not to weights or places: two laws sampled with one key tend to give the same token, which is
  /// how a drafter can agree with the target more often than chance (Gumbel-max coupling; Daliri et
  /// al. 2024, arXiv:2408.07978).
  /// @shape ids, weights [n], n >= 1; ids ascending; weights >= 0, at least one > 0
  /// @cost O(n)
  virtual std::size_t categorical(RngKey key, std::span<const TokenId> ids,
                                  std::span<const double> weights) = 0;

  /// The id that categorical() finds for all weights of `weights`, of which a source may look at as
  /// few as it needs; -1 where all of them are 0.
  virtual TokenId pick(RngKey key, LazyWeights& weights) {
    std::vector<TokenId> ids;
    std::vector<double> all;
    for (std::size_t run = 0; run < weights.bounds().size(); ++run) {
      for (const double weight : weights.run(run)) {
        ids.push_back(static_cast<TokenId>(ids.size()));
        all.push_back(weight);
      }
    }
    const bool any = std::any_of(all.begin(), all.end(), [](double weight) { return weight > 0; });
    return any ? ids[categorical(key, ids, all)] : -1;
  }
};

/// Philox4x32-10.
/// @source Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The shipped source: Philox keyed by (seed, sequence, RngKey).
class Philox final : public Rng {
 public:
  explicit Philox(std::uint64_t seed = 0, std::uint32_t sequence = 0) noexcept
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        sequence_(sequence) {}

  bool bernoulli(RngKey key, double probability) override {
    return uniform(key, 0) < probability;  // uniform < 1, so 1 always accepts and 0 never does
  }

  std::size_t categorical(RngKey key, std::span<const TokenId> ids,
                          std::span<const double> weights) override {
    // Two races (Gumbel-max twice), first between blocks of neighbouring ids, then within the block
    // that won: a block of weight W wins with W / sum and a token of it with w / W. So few tokens
    // need a number.
    Race blocks;
    std::size_t begin_of_winner = 0;
    for (std::size_t begin = 0; begin < ids.size();) {
      const std::uint32_t block = block_of(ids[begin]);
      const std::size_t end = end_of_block(ids, begin);
      const double weight = sum(weights.subspan(begin, end - begin));
      if (enter_block(blocks, key, block, weight, [weight] { return weight; })) {
        begin_of_winner = begin;
      }
      begin = end;
    }
    const std::size_t n = end_of_block(ids, begin_of_winner) - begin_of_winner;
    return begin_of_winner +
           winner_of_block(key, weights.subspan(begin_of_winner, n), [&](std::size_t i) {
             return static_cast<std::uint32_t>(ids[begin_of_winner + i]);
           });
  }

  /// The same races. A run that could not win even with all that its bound allows is out of the
  /// first one unseen. The likeliest run goes ahead: after it few others need a look.
  /// @cost O(n / kRun) random numbers, and the weights of a few runs; of more where they are much
  /// below their bounds
  TokenId pick(RngKey key, LazyWeights& weights) override {
    const std::span<const double> bounds = weights.bounds();
    Race runs;
    const auto enter = [&](std::size_t run) {
      return enter_block(runs, key, static_cast<std::uint32_t>(run), bounds[run],
                         [&] { return sum(weights.run(run)); });
    };
    const auto likeliest = idx(std::max_element(bounds.begin(), bounds.end()) - bounds.begin());
    std::size_t winner = likeliest;
    bool any = enter(likeliest);
    for (std::size_t run = 0; run < bounds.size(); ++run) {
      if (run == likeliest || !enter(run)) continue;
      winner = run;
      any = true;
    }
    if (!any) return -1;
    const std::size_t first = winner * LazyWeights::kRun;
    return static_cast<TokenId>(first +
                                winner_of_block(key, weights.run(winner), [first](std::size_t i) {
                                  return static_cast<std::uint32_t>(first + i);
                                }));
  }

 private:
  /// argmax(log w + Gumbel) is argmin(E / w) with E = -log u exponential: who arrives first wins.
  class Race {
   public:
    /// True where this one is ahead of all before it.
    /// @param bound  at least weight(), which is asked for only where that is not enough
    template <typename Weight, typename Uniform>
    bool enter(double bound, Weight&& weight, Uniform&& uniform) {
      if (!(bound > 0)) return false;
      const double u = uniform();
      // Because -log u >= 1 - u, most are dismissed without a logarithm.
      if (1.0 - u >= first_ * bound) return false;
      const double w = weight();
      if (!(w > 0)) return false;
      const double arrival = -std::log(u) / w;
      // The first possible one is taken even where its weight is so small that the quotient
      // overflows.
      if (!(arrival < first_) && started_) return false;
      first_ = arrival;
      return started_ = true;
    }

   private:
    double first_ = std::numeric_limits<double>::infinity();
    bool started_ = false;
  };

  static constexpr std::uint32_t kBlocks = 1u << 31;  // items of blocks, apart from those of ids
  static constexpr std::uint32_t kBlockIds = LazyWeights::kRun;
  static constexpr std::uint32_t block_of(TokenId id) noexcept {
    return static_cast<std::uint32_t>(id) / kBlockIds;
  }
  /// Behind the last of the ids that are in a block with that at `begin`.
  static std::size_t end_of_block(std::span<const TokenId> ids, std::size_t begin) noexcept {
    const auto in_block = [&, block = block_of(ids[begin])](std::size_t i) {
      return i < ids.size() && block_of(ids[i]) == block;
    };
    // Most blocks of a law without cuts are complete.
    if (in_block(begin + kBlockIds - 1)) return begin + kBlockIds;
    std::size_t end = begin + 1;
    while (in_block(end)) ++end;
    return end;
  }

  /// A block of ids takes part in the first race.
  template <typename Weight>
  bool enter_block(Race& race, RngKey key, std::uint32_t block, double bound, Weight&& weight) {
    return race.enter(bound, weight, [&] { return uniform(key, kBlocks | block); });
  }
  /// The second race: place of the winner. @param id_at  the id at a place
  template <typename IdAt>
  std::size_t winner_of_block(RngKey key, std::span<const double> weights, IdAt&& id_at) {
    Race tokens;
    std::size_t winner = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double weight = weights[i];
      if (tokens.enter(weight, [weight] { return weight; }, [&] { return uniform(key, id_at(i)); }))
        winner = i;
    }
    return winner;
  }

  /// Number in (0, 1) for `item` of a key: two items share one Philox block. It never reaches 0
  /// or 1.
  double uniform(RngKey key, std::uint32_t item) noexcept {
    const std::array<std::uint32_t, 4> counter{
        item / 2, static_cast<std::uint32_t>(key.position),
        static_cast<std::uint32_t>(key.node) | static_cast<std::uint32_t>(key.purpose) << 24,
        sequence_};
    if (!cached_ || counter != counter_) {
      counter_ = counter;
      block_ = philox4x32(counter, key_);
      cached_ = true;
    }
    const std::size_t word = item % 2 * 2;
    const std::uint64_t bits = std::uint64_t{block_[word]} << 32 | block_[word + 1];
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  }

  std::array<std::uint32_t, 2> key_;
  std::uint32_t sequence_;
  // The last block, kept because neighbouring ids share it; a memo, not generator state.
  std::array<std::uint32_t, 4> counter_{};
  std::array<std::uint32_t, 4> block_{};
  bool cached_ = false;
};

}  // namespace foredraft::inline v0
