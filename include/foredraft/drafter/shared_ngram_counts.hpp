#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <shared_mutex>
#include <span>
#include <utility>

#include <foredraft/core/index.hpp>
#include <foredraft/drafter/ngram_counts.hpp>

namespace foredraft::inline v0 {

/// Counts that several sequences, on any threads, read and add to: what was learnt from the texts
/// of all of them.
class SharedNgramCounts {
 public:
  SharedNgramCounts() = default;
  explicit SharedNgramCounts(NgramCounts counts) : counts_(std::move(counts)) {}

  /// What f(counts) returns; nobody changes them meanwhile.
  template <typename F>
  decltype(auto) read(F&& f) const {
    const std::shared_lock lock(mutex_);
    return std::forward<F>(f)(std::as_const(counts_));
  }

  /// NgramCounts::learn, in pieces between which others may read.
  /// @errors kOutOfMemory; a part may then have been counted
  void learn(std::span<const TokenId> tokens, std::size_t begin) {
    constexpr std::size_t kPiece = 256;  // about 0.1 ms
    for (; begin < tokens.size(); begin += kPiece) {
      const std::unique_lock lock(mutex_);
      counts_.learn(tokens.first(std::min(tokens.size(), begin + kPiece)), begin);
    }
  }
  void merge(const NgramCounts& other) {
    const std::unique_lock lock(mutex_);
    counts_.merge(other);
  }
  void clear() {
    const std::unique_lock lock(mutex_);
    counts_.clear();
  }
  /// @errors as NgramCounts::save
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    read([&](const NgramCounts& counts) { counts.save(out, vocabulary); });
  }

 private:
  mutable std::shared_mutex mutex_;
  NgramCounts counts_;
};

}  // namespace foredraft::inline v0
