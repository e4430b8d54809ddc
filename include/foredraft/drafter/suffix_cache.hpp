#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <istream>
#include <mutex>
#include <ostream>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/suffix_tree.hpp>

namespace foredraft::inline v0 {

/// The outputs of earlier requests, for the drafts of later ones: a suffix tree that sequences
/// share. The oldest outputs leave where there are too many, or too many tokens.
///
/// Threads may use it at the same time. Nobody who drafts waits: while one adds an output, the
/// others draft without.
///
/// Bound: that of SuffixTree with max_cached_tokens, at most 280 bytes a token, or 352 while it
/// grows.
/// @cost insert O(tokens * depth), with the others shut out
class SuffixCache {
 public:
  struct Settings {
    int max_tree_depth = 24;  ///< longest string that is counted, of match and draft
    int max_cached_requests = 10000;
    int max_cached_tokens = 1 << 18;  ///< of all outputs together; of a longer one its end
  };

  SuffixCache() : SuffixCache(Settings{}) {}
  /// @errors kInvalidOption
  explicit SuffixCache(const Settings& settings)
      : settings_(settings), tree_(settings.max_tree_depth, settings.max_cached_tokens) {
    if (settings.max_cached_requests < 1) {
      throw Error(ErrorCode::kInvalidOption,
                  "max_cached_requests " + std::to_string(settings.max_cached_requests),
                  "1 or more", "draft without a cache to keep none");
    }
  }

  const Settings& settings() const noexcept { return settings_; }

  /// Add the output of a request.
  /// @errors std::bad_alloc; the cache is empty then
  void insert(std::span<const TokenId> output) {
    if (output.size() > idx(settings_.max_cached_tokens)) {
      output = output.last(idx(settings_.max_cached_tokens));
    }
    if (output.empty()) return;
    const std::unique_lock lock(mutex_);
    try {
      const auto n = static_cast<int>(output.size());
      while (tree_.size() + n > settings_.max_cached_tokens ||
             requests_.size() >= idx(settings_.max_cached_requests)) {
        tree_.remove(requests_.front().begin, requests_.front().size);
        requests_.pop_front();
      }
      for (const TokenId token : output) tree_.append(token);
      requests_.push_back({tree_.close(), n});
      ++version_;
    } catch (...) {
      clear();
      throw;
    }
  }

  /// Forget all outputs.
  void forget() noexcept {
    const std::unique_lock lock(mutex_);
    clear();
  }

  /// Call read(tree, version) with the tree as it is; places in it hold for one version.
  /// @return false where another thread is changing it
  template <typename Read>
  bool read(Read&& read) const {
    const std::shared_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    read(tree_, version_);
    return true;
  }

  /// Write the outputs, oldest first, for tokens of `vocabulary`: their number, and for each its
  /// number of tokens, 64 bits each, and the tokens.
  /// @errors as write_table
  void save(std::ostream& out, const VocabularyFingerprint& vocabulary) const {
    PayloadWriter payload;
    {
      const std::shared_lock lock(mutex_);
      payload.put(std::uint64_t{requests_.size()});
      for (const Output& output : requests_) {
        payload.put(static_cast<std::uint64_t>(output.size));
        for (int i = 0; i < output.size; ++i) {
          payload.put(tree_.token(output.begin + static_cast<std::uint32_t>(i)));
        }
      }
    }
    write_table(out, {TableKind::kSuffixTree, vocabulary, std::move(payload).bytes()});
  }

  /// Add the outputs of a file, as if they were made now: the limits hold. Where it throws, none is
  /// added.
  /// @errors as read_table, and kCorruptFile for what save() does not write
  void load(std::istream& in, const VocabularyFingerprint& vocabulary) {
    const SavedTable table = read_table(in, TableKind::kSuffixTree, vocabulary);
    PayloadReader payload(table.payload, table.vocabulary.n_vocab);
    std::vector<TokenId> tokens;
    std::vector<std::size_t> ends;
    or_out_of_memory("outputs of earlier requests", [&] {
      for (std::size_t left = payload.take_count(sizeof(std::uint64_t), "outputs"); left > 0;
           --left) {
        for (std::size_t n = payload.take_count(sizeof(TokenId), "tokens"); n > 0; --n) {
          tokens.push_back(payload.take_token("token"));
        }
        ends.push_back(tokens.size());
      }
      payload.end();
    });
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      insert(std::span(tokens).subspan(begin, end - begin));
      begin = end;
    }
  }

  struct Held {
    int requests = 0;
    int tokens = 0;
    int nodes = 0;
    std::size_t bytes = 0;
  };
  Held held() const {
    const std::shared_lock lock(mutex_);
    return {static_cast<int>(requests_.size()), tree_.size(), tree_.nodes(), tree_.bytes()};
  }

 private:
  struct Output {
    std::uint32_t begin;
    int size;
  };

  void clear() noexcept {
    tree_.clear();
    requests_.clear();
    ++version_;
  }

  Settings settings_;
  mutable std::shared_mutex mutex_;  // of all below
  SuffixTree tree_;
  std::deque<Output> requests_;  // oldest first
  std::uint64_t version_ = 1;
};

/// Where the end of one sequence's text is in a tree that others change.
class SuffixMatches {
 public:
  void clear() noexcept { *this = {}; }

  /// Catch up with text and tree.
  /// @cost O(matches) for each new token; O(depth^2) where the tree has changed
  void follow(const SuffixTree& tree, std::uint64_t version, std::span<const TokenId> tokens) {
    const auto most = idx(tree.depth() - 1);
    if (version != version_ || size_ > tokens.size() || tokens.size() - size_ > most) {
      version_ = version;
      count_ = 0;
      size_ = tokens.size() - std::min(tokens.size(), most);
    }
    for (; size_ < tokens.size(); ++size_) {
      // at_[i] becomes a match one longer, and an empty one the shortest.
      const auto kept = std::min(count_, most - 1);
      count_ = 0;
      SuffixTree::Locus shorter;
      for (std::size_t i = 0; i <= kept; ++i) {
        const SuffixTree::Locus here = i < kept ? at_[i] : SuffixTree::Locus{};
        if (!tree.follow(shorter, tokens[size_])) break;  // then no longer string is there either
        at_[count_++] = shorter;
        shorter = here;
      }
    }
  }

  /// @shape [longest match] matches of 1 token and more
  std::span<const SuffixTree::Locus> matches() const noexcept { return {at_.data(), count_}; }

 private:
  std::uint64_t version_ = 0;
  std::size_t size_ = 0;  // tokens followed
  std::size_t count_ = 0;
  std::array<SuffixTree::Locus, SuffixTree::kMaxDepth> at_ = {};
};

}  // namespace foredraft::inline v0
