#pragma once

#include <type_traits>

#include "concepts/archetypes.hpp"

/// For each requirement of each concept the archetype without it. What hides a member of the base
/// takes it away: deleted, private, of another type, not const or not noexcept.
namespace near_miss {

namespace fd = foredraft;
using Nodes = std::span<const fd::Node>;
using Path = std::span<const fd::NodeIndex>;

namespace cache {

struct NoSize : archetype::Cache {
  int size() const = delete;
};
struct SizeNotConst : archetype::Cache {
  int size();
};
struct SizeOfAnotherType : archetype::Cache {
  std::size_t size() const;
};
struct NoCapacity : archetype::Cache {
  int capacity() const = delete;
};
struct NoMaxStaged : archetype::Cache {
  int max_staged() const = delete;
};
struct NoStaged : archetype::Cache {
  int staged() const = delete;
};
struct NoStage : archetype::Cache {
  void stage(Nodes) = delete;
};
struct CommitMayThrow : archetype::Cache {
  void commit(Path);
};
struct DiscardMayThrow : archetype::Cache {
  void discard();
};
struct NoSnapshotType : archetype::Cache {
 private:
  using Snapshot = archetype::Cache::Snapshot;
};
struct SnapshotOfAnotherType : archetype::Cache {
  int snapshot() const;
};
struct NoRestore : archetype::Cache {
  void restore(const Snapshot&) = delete;
};

template <typename... C>
constexpr bool none_is_one = (!fd::Cache<C> && ...);
static_assert(none_is_one<NoSize, SizeNotConst, SizeOfAnotherType, NoCapacity, NoMaxStaged,
                          NoStaged, NoStage>);
static_assert(
    none_is_one<CommitMayThrow, DiscardMayThrow, NoSnapshotType, SnapshotOfAnotherType, NoRestore>);

}  // namespace cache

struct TruncateMayThrow : archetype::Truncatable {
  void truncate(int);
};
static_assert(!fd::Truncatable<TruncateMayThrow>);

namespace target {

struct NoVocabSize : archetype::Target {
  int vocab_size() const = delete;
};
struct NoRowExact : archetype::Target {
 private:
  static constexpr bool row_exact = true;
};
struct NoForward : archetype::Target {
  void forward(std::span<fd::Request<archetype::Cache>>) = delete;
};
struct SomeCache : archetype::Cache {};

static_assert(!fd::Target<NoVocabSize, archetype::Cache>);
static_assert(!fd::Target<NoRowExact, archetype::Cache>);
static_assert(!fd::Target<NoForward, archetype::Cache>);
static_assert(!fd::Target<archetype::Target, SomeCache>);  // it cannot read this cache
static_assert(!fd::Target<archetype::Target, int>);

struct NoIsEnd : archetype::TextTarget {
  void is_end(fd::TokenId) const = delete;
};
struct PieceIsNoText : archetype::TextTarget {
  std::span<const char> piece(fd::TokenId) const;
};
static_assert(!fd::TextTarget<NoIsEnd>);
static_assert(!fd::TextTarget<PieceIsNoText>);

struct InfoOfAnotherType : archetype::DescribedTarget {
  int info() const;
};
static_assert(!fd::DescribedTarget<InfoOfAnotherType>);

}  // namespace target

namespace drafter {

struct NoProposal : archetype::Drafter {
 private:
  static constexpr fd::Proposal proposal = fd::Proposal::kPointMass;
};
struct NoShape : archetype::Drafter {
 private:
  static constexpr fd::Shape shape = fd::Shape::kChain;
};
struct NoMaxDepth : archetype::Drafter {
  int max_depth() const = delete;
};
struct NoTaps : archetype::Drafter {
  std::span<const int> taps() const = delete;
};
struct TapsNotConst : archetype::Drafter {
  std::span<const int> taps();
};
struct TapsOfAnotherType : archetype::Drafter {
  int taps() const;
};
struct NoControls : archetype::Drafter {
 private:
  static constexpr bool controls = false;
};
struct NoBacklog : archetype::Drafter {
  std::optional<int> backlog(int) const = delete;
};
struct BacklogOfAnotherType : archetype::Drafter {
  int backlog(int) const;
};
struct NoSummary : archetype::Drafter {
  std::string summary() const = delete;
};
struct NoContinues : archetype::Drafter {
  bool continues() const = delete;
};
struct NoNeeds : archetype::Drafter {
  fd::RowNeed needs() const = delete;
};
struct NeedsOfAnotherType : archetype::Drafter {
  int needs() const;
};
struct NoAttach : archetype::Drafter {
  void attach(const fd::TargetInfo&) = delete;
};
struct NoPropose : archetype::Drafter {
  void propose(const fd::Context&, fd::Limit, fd::DraftTree&) = delete;
};
struct NoAbsorb : archetype::Drafter {
  void absorb(const fd::PromptBlock&) = delete;
};
struct CommitMayThrow : archetype::Drafter {
  void commit(const fd::Round&);
};
struct NoTruncate : archetype::Drafter {
  void truncate(int) = delete;
};
struct ResetMayThrow : archetype::Drafter {
  void reset();
};
struct NoSnapshotType : archetype::Drafter {
 private:
  using Snapshot = archetype::Drafter::Snapshot;
};
struct SnapshotNotConst : archetype::Drafter {
  Snapshot snapshot();
};
struct NoRestore : archetype::Drafter {
  void restore(const Snapshot&) = delete;
};

template <typename... D>
constexpr bool none_is_one = (!fd::Drafter<D> && ...);
static_assert(none_is_one<NoProposal, NoShape, NoMaxDepth, NoPropose, NoAbsorb, CommitMayThrow>);
static_assert(none_is_one<NoTaps, TapsNotConst, TapsOfAnotherType, NoAttach>);
static_assert(none_is_one<NoControls, NoBacklog, BacklogOfAnotherType, NoSummary, NoContinues>);
static_assert(none_is_one<NoNeeds, NeedsOfAnotherType>);
static_assert(none_is_one<NoTruncate, ResetMayThrow, NoSnapshotType, SnapshotNotConst, NoRestore>);

struct NoDraftCache : archetype::SteppedDrafter {
 private:
  using DraftCache = archetype::Cache;
};
struct NoBegin : archetype::SteppedDrafter {
  void begin(const fd::Context&, fd::Limit, fd::DraftTree&) = delete;
};
struct RequestOfAnotherCache : archetype::SteppedDrafter {
  std::optional<fd::Request<int>> request();
};
struct NoAdvance : archetype::SteppedDrafter {
  void advance(fd::DraftTree&, double) = delete;
};
struct VoidDraftCache : archetype::Drafter {
  using DraftCache = void;
  void begin(const fd::Context&, fd::Limit, fd::DraftTree&) {}
  std::optional<fd::Request<void>> request() { return {}; }
  void advance(fd::DraftTree&, double) {}
};
static_assert(!fd::SteppedDrafter<NoDraftCache> && !fd::SteppedDrafter<VoidDraftCache>);
static_assert(!fd::SteppedDrafter<NoBegin> && !fd::SteppedDrafter<RequestOfAnotherCache> &&
              !fd::SteppedDrafter<NoAdvance>);

}  // namespace drafter

namespace acceptance {

struct NoShape : archetype::Acceptance {
 private:
  static constexpr fd::Shape shape = fd::Shape::kChain;
};
struct NoUsesLaw : archetype::Acceptance {
  bool uses_law() const = delete;
};
struct UsesLawMayThrow : archetype::Acceptance {
  bool uses_law() const;
};
struct NoLossless : archetype::Acceptance {
 private:
  static constexpr bool lossless = false;
};
struct NeedsOfAnotherType : archetype::Acceptance {
  bool needs(const fd::SamplingOptions&) const;
};
struct VerifyNotConst : archetype::Acceptance {
  fd::Verdict verify(const fd::DraftTree&, const fd::RowSampler&, fd::Rng&);
};
struct VerifyGivesAnotherType : archetype::Acceptance {
  fd::TokenId verify(const fd::DraftTree&, const fd::RowSampler&, fd::Rng&) const;
};

template <typename... A>
constexpr bool none_is_one = (!fd::Acceptance<A> && ...);
static_assert(none_is_one<NoShape, NoUsesLaw, NoLossless, NeedsOfAnotherType, VerifyNotConst>);
static_assert(none_is_one<VerifyGivesAnotherType, UsesLawMayThrow>);

}  // namespace acceptance

}  // namespace near_miss
