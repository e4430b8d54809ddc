#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/bucket_index.hpp>

namespace foredraft::inline v0 {

/// Many short strings in one block of memory, numbered from 0. A vocabulary has up to some 260,000.
class StringTable {
 public:
  void push_back(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends_.push_back(bytes_.size());
  }

  std::size_t size() const noexcept { return ends_.size(); }

  /// Valid until the next push_back.
  std::string_view operator[](std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::size_t> ends_;  // [size()]
};

/// From a string to its number in a StringTable. It stores numbers only, so that table and index
/// can be copied and moved like any value: an index of views would point into the table that was
/// copied from.
class StringIndex {
 public:
  StringIndex() = default;

  /// Of equal strings the one that comes last in `order` is found.
  /// @cost O(bytes), O(bytes log n) where a file made hashes collide
  StringIndex(const StringTable& table, std::span<const TokenId> order)
      : index_(
            std::vector<TokenId>(order.rbegin(), order.rend()),
            [&](TokenId id) { return hash(table[idx(id)]); },
            [&](TokenId a, TokenId b) { return table[idx(a)] < table[idx(b)]; }) {}

  /// @cost O(bytes of text)
  std::optional<TokenId> find(const StringTable& table, std::string_view text) const noexcept {
    const TokenId* id =
        index_.find(hash(text), [&](TokenId item) { return table[idx(item)].compare(text); });
    return id == nullptr ? std::nullopt : std::optional(*id);
  }

 private:
  static std::size_t hash(std::string_view text) noexcept {
    return std::hash<std::string_view>()(text);
  }

  BucketIndex<TokenId> index_;
};

}  // namespace foredraft::inline v0
