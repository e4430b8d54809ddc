#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <foredraft/core/concepts.hpp>
#include <foredraft/sampling/row_sampler.hpp>

/// Types that offer what a concept asks for and nothing else: not copyable where copying is not
/// asked for, no ability that is optional. What compiles with them asks for no more than it says.
namespace archetype {

namespace fd = foredraft;

class Cache {
 public:
  struct Snapshot {
    std::vector<fd::TokenId> tokens;
  };

  Cache() = default;
  Cache(Cache&&) = default;
  Cache& operator=(Cache&&) = default;

  int size() const { return static_cast<int>(tokens_.size()); }
  int capacity() const { return 64; }
  int max_staged() const { return 8; }
  int staged() const { return static_cast<int>(staged_.size()); }
  void stage(std::span<const fd::Node> nodes) {
    staged_.insert(staged_.end(), nodes.begin(), nodes.end());
  }
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    for (const fd::NodeIndex node : path) tokens_.push_back(staged_[fd::idx(node)].token);
    staged_.clear();
  }
  void discard() noexcept { staged_.clear(); }
  Snapshot snapshot() const { return {tokens_}; }
  void restore(const Snapshot& snapshot) { tokens_ = snapshot.tokens; }

  fd::TokenId token(fd::NodeIndex node) const { return staged_[fd::idx(node)].token; }

 private:
  std::vector<fd::TokenId> tokens_;
  std::vector<fd::Node> staged_;
};
static_assert(fd::Cache<Cache>);
static_assert(!fd::Truncatable<Cache>);
static_assert(!std::is_copy_constructible_v<Cache>);

struct Truncatable {
  Truncatable() = default;
  Truncatable(Truncatable&&) = delete;
  void truncate(int) noexcept {}
};
static_assert(fd::Truncatable<Truncatable>);

/// Counts upwards: behind token t comes t + 1.
struct Target {
  static constexpr std::false_type row_exact{};
  static constexpr int kVocab = 10;

  Target() = default;
  Target(Target&&) = delete;

  int vocab_size() const { return kVocab; }
  void forward(std::span<fd::Request<Cache>> requests) {
    for (fd::Request<Cache>& request : requests) {
      request.scores->reset(request.want, request.count, kVocab);
      for (int row = 0; row < request.count; ++row) {
        std::vector<float> logits(kVocab, 0.0f);
        const fd::TokenId token = request.cache->token(request.first + row);
        logits[fd::idx(token + 1) % kVocab] = 9.0f;
        request.scores->set_row(row, logits);
      }
    }
  }
};
static_assert(fd::Target<Target, Cache>);
static_assert(!fd::TextTarget<Target>);

struct TextTarget : Target {
  struct Yes {
    operator bool() const { return false; }  // NOLINT(google-explicit-constructor)
  };
  Yes is_end(fd::TokenId) const { return {}; }
  const char* piece(fd::TokenId) const { return "x"; }
};
static_assert(fd::TextTarget<TextTarget>);
static_assert(!fd::DescribedTarget<TextTarget>);

struct DescribedTarget : Target {
  fd::TargetInfo info() const { return {.n_vocab = kVocab}; }
};
static_assert(fd::DescribedTarget<DescribedTarget>);

/// Proposes one token, wrong behind every third anchor.
struct Drafter {
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr std::false_type controls{};
  struct Snapshot {};

  Drafter() = default;
  Drafter(Drafter&&) = default;

  int max_depth() const { return 1; }
  std::span<const int> taps() const { return {}; }
  std::optional<int> backlog(int) const { return {}; }
  std::string summary() const { return {}; }
  bool continues() const { return false; }
  fd::RowNeed needs() const { return fd::RowNeed::kNothing; }
  void attach(const fd::TargetInfo&) {}
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    if (limit.depth > 0)
      draft.extend((context.anchor() + (context.anchor() % 3 == 0 ? 2 : 1)) % Target::kVocab);
  }
  void absorb(const fd::PromptBlock&) {}
  void commit(const fd::Round&) noexcept {}
  void truncate(int) noexcept {}
  void reset() noexcept {}
  Snapshot snapshot() const { return {}; }
  void restore(const Snapshot&) {}
};
static_assert(fd::Drafter<Drafter>);
static_assert(!std::is_copy_constructible_v<Drafter>);

/// The same in steps. Its model would be another of the target's kind.
struct SteppedDrafter : Drafter {
  using DraftCache = Cache;
  void begin(const fd::Context&, fd::Limit, fd::DraftTree&) {}
  std::optional<fd::Request<Cache>> request() { return {}; }
  void advance(fd::DraftTree&, double) {}
};
static_assert(fd::SteppedDrafter<SteppedDrafter>);
static_assert(!fd::SteppedDrafter<Drafter>);

struct Acceptance {
  static constexpr fd::Shape shape = fd::Shape::kChain;
  static constexpr std::true_type lossless{};

  Acceptance() = default;
  Acceptance(Acceptance&&) = default;

  bool uses_law() const noexcept { return false; }
  fd::RowNeed needs(const fd::SamplingOptions&) const { return fd::RowNeed::kArgmax; }
  fd::Verdict verify(const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng&) const {
    fd::Verdict verdict;
    verdict.start();
    while (draft.child_with(verdict.end(), rows.argmax(verdict.end())) >= 0) {
      verdict.accept(draft.first_child(verdict.end()));
    }
    verdict.last = rows.argmax(verdict.end());
    return verdict;
  }
};
static_assert(fd::Acceptance<Acceptance>);
static_assert(!std::is_copy_constructible_v<Acceptance>);

}  // namespace archetype
