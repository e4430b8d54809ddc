#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/core/error.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"

namespace fuzz {

/// A LinearCache beside what it has to hold: a list of rows. Every row has bytes of its own, so one
/// that is misplaced, or written over, is seen at once.
template <typename T>
class CacheTrial {
 public:
  explicit CacheTrial(Choices& choices)
      : choices_(choices), cache_({kLayers, kHeads, kHead, kCapacity}, kCapacity, kStaged) {}

  /// @return whether anything was committed
  bool run() {
    for (int step = 0; step < 200 && !choices_.empty(); ++step) {
      switch (choices_.below(10)) {
        case 5: truncate(); break;
        case 6: snapshot(); break;
        case 7: restore(); break;
        case 8: restore_hostile(); break;
        case 9:
          cache_.discard();
          staged_.clear();
          break;
        case 3:
        case 4: commit(); break;
        default: stage(); break;
      }
      check();
    }
    return committed_once_;
  }

 private:
  using Cache = foredraft::LinearCache<T>;
  using Layer = typename Cache::Rows::Layer;
  using Node = foredraft::Node;
  using NodeIndex = foredraft::NodeIndex;

  static constexpr int kElements = 2;  // of a stored row
  static constexpr int kHead = kElements * foredraft::kValuesPerElement<T>;
  static constexpr int kLayers = 2, kHeads = 2;
  static constexpr int kCapacity = 100, kStaged = 40;

  using Elements = std::array<T, kElements>;
  /// Bytes of a row's keys or values in one head, from the row's number.
  static Elements elements(int row, int layer, int head, bool key) {
    Elements all;
    auto* bytes = reinterpret_cast<unsigned char*>(all.data());
    const int seed = ((row * kLayers + layer) * kHeads + head) * 2 + key;
    for (std::size_t i = 0; i < sizeof(all); ++i) {
      bytes[i] = static_cast<unsigned char>(static_cast<std::size_t>(seed) * 37 + i * 11);
    }
    return all;
  }

  struct Staged {
    Node node;
    int row = 0;           // its number
    bool written = false;  // a pass has been over it
  };
  struct Saved {
    typename Cache::Snapshot snapshot;
    std::vector<int> rows;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int n_staged() const { return static_cast<int>(staged_.size()); }

  void stage() {
    const int count = static_cast<int>(choices_.below(choices_.once_in(8) ? kStaged + 2 : 6));
    const bool chain = choices_.flag();
    std::vector<Node> nodes;
    bool valid = n_staged() + count <= kStaged;
    for (int i = 0; i < count; ++i) {
      const int known = n_staged() + i;
      NodeIndex parent = chain ? known - 1 : static_cast<int>(choices_.below(at(known + 1))) - 1;
      if (choices_.once_in(64)) parent = choices_.take<std::int32_t>();
      valid = valid && parent >= foredraft::kCommitted && parent < known;
      nodes.push_back({static_cast<int>(choices_.below(50)), parent});
    }
    try {
      cache_.stage(nodes);
      demand(valid, "a draft that is none was staged");
    } catch (const foredraft::Error&) {
      demand(!valid, "a draft was refused");
      return;
    }
    for (const Node& node : nodes) staged_.push_back({node, next_row_++, false});
    if (!choices_.once_in(4)) forward();
  }

  /// What a pass does to a cache.
  void forward() {
    for (int layer = 0; layer < kLayers; ++layer) {
      const Layer kv = cache_.layer(layer);
      for (int head = 0; head < kHeads; ++head) {
        T* const k = kv.k + at(head) * kv.head_stride;
        T* const v = kv.v + at(head) * kv.head_stride;
        for (int i = 0; i < n_staged(); ++i) {
          const std::size_t to = at((kv.size + i) * kElements);
          const Elements key = elements(staged_[at(i)].row, layer, head, true);
          const Elements value = elements(staged_[at(i)].row, layer, head, false);
          std::memcpy(k + to, key.data(), sizeof(key));
          std::memcpy(v + to, value.data(), sizeof(value));
        }
      }
    }
    for (Staged& staged : staged_) staged.written = true;
  }

  void commit() {
    std::vector<NodeIndex> path;
    NodeIndex node = static_cast<int>(choices_.below(at(n_staged() + 1))) - 1;
    for (; node >= 0; node = staged_[at(node)].node.parent) path.insert(path.begin(), node);
    if (rows_.size() + path.size() > kCapacity) return;
    const auto unwritten = [&](NodeIndex i) { return !staged_[at(i)].written; };
    if (std::any_of(path.begin(), path.end(), unwritten)) forward();
    cache_.commit(path);
    committed_once_ |= !path.empty();

    for (const NodeIndex i : path) rows_.push_back(staged_[at(i)].row);
    // Who descends from the end of the path stays, renumbered in order.
    const NodeIndex end = path.empty() ? foredraft::kCommitted : path.back();
    std::vector<Staged> kept;
    std::vector<NodeIndex> number(staged_.size(), -2);  // of those that stay
    for (int i = 0; i < n_staged(); ++i) {
      Staged staged = staged_[at(i)];
      NodeIndex& parent = staged.node.parent;
      if (parent == end) {
        parent = foredraft::kCommitted;
      } else if (parent >= 0 && number[at(parent)] >= 0) {
        parent = number[at(parent)];
      } else {
        continue;
      }
      number[at(i)] = static_cast<int>(kept.size());
      kept.push_back(staged);
    }
    staged_ = kept;
  }

  void truncate() {
    const int n = static_cast<int>(choices_.below(at(kCapacity + 2))) - 1;
    cache_.truncate(n);
    rows_.resize(std::min(rows_.size(), at(std::max(n, 0))));
    staged_.clear();
  }

  void snapshot() {
    std::optional<Saved>& place = saved_[choices_.below(saved_.size())];
    place = Saved{cache_.snapshot(), rows_};
  }

  void restore() {
    const std::optional<Saved>& place = saved_[choices_.below(saved_.size())];
    cache_.restore(place ? place->snapshot : typename Cache::Snapshot{});
    rows_ = place ? place->rows : std::vector<int>{};
    staged_.clear();
  }

  /// Snapshots that no cache of this shape has made are refused and leave everything as it was.
  void restore_hostile() {
    typename Cache::Snapshot hostile = cache_.snapshot();
    const std::size_t whole = hostile.k.size();
    switch (choices_.below(7)) {
      case 0: hostile.size = choices_.take<std::int32_t>(); break;
      case 1: hostile.k.resize(choices_.below(whole + 9)); break;
      case 2: hostile.v.resize(choices_.below(whole + 9)); break;
      case 3: hostile.size += choices_.flag() ? 1 : -1; break;
      case 4: hostile.size = choices_.flag() ? INT_MIN : INT_MAX; break;
      case 5:
        hostile.k.clear();
        hostile.v.clear();
        break;
      case 6: {
        Cache other({1, kHeads, kHead, kCapacity}, kCapacity, kStaged);
        const std::vector<Node> nodes{{1, -1}, {2, 0}};
        const std::vector<NodeIndex> path{0, 1};
        other.stage(nodes);
        other.commit(path);
        hostile = other.snapshot();
        break;
      }
    }
    const bool same =
        hostile.size == cache_.size() && hostile.k.size() == whole && hostile.v.size() == whole;
    try {
      cache_.restore(hostile);
      demand(same || (hostile.size == 0 && hostile.k.empty() && hostile.v.empty()),
             "a snapshot of another shape was taken");
      if (!same) rows_.clear();
      staged_.clear();
    } catch (const foredraft::Error&) {
      demand(!same, "a snapshot was refused");
    }
  }

  void check() {
    demand(cache_.size() == static_cast<int>(rows_.size()), "size");
    demand(cache_.staged() == n_staged(), "staged");
    check_nodes();
    for (int layer = 0; layer < kLayers; ++layer) {
      const Layer kv = cache_.layer(layer);
      demand(kv.size == cache_.size(), "size of a layer");
      for (int head = 0; head < kHeads; ++head) check_head(kv, layer, head);
    }
  }

  void check_nodes() {
    const foredraft::SequenceRows rows = cache_.rows(0, n_staged(), 0);
    bool chain = true;
    for (int i = 0; i < n_staged(); ++i) {
      const Node& node = staged_[at(i)].node;
      chain = chain && node.parent == i - 1;
      std::vector<NodeIndex> path;
      for (int n = i; n >= 0; n = staged_[at(n)].node.parent) path.insert(path.begin(), n);
      demand(cache_.token(i) == node.token, "token");
      demand(cache_.position(i) == cache_.size() + static_cast<int>(path.size()) - 1, "position");
      if (rows.chain()) continue;
      const auto begin = rows.path.begin() + rows.path_begin[at(i)];
      demand(std::equal(path.begin(), path.end(), begin,
                        rows.path.begin() + rows.path_begin[at(i) + 1]),
             "path");
    }
    demand(rows.chain() == chain, "chain");
  }

  void check_head(const Layer& kv, int layer, int head) {
    const int all = cache_.size() + n_staged();
    const T* const k = kv.k + at(head) * kv.head_stride;
    const T* const v = kv.v + at(head) * kv.head_stride;
    std::vector<T> keys(k, k + at(all * kElements));  // as rows
    using namespace foredraft::cpu;
    for (int first = 0; first < positions_in_key_blocks(kv.size); first += kKeyBlock) {
      key_block_to_rows(k + first * kElements, kHead, keys.data() + first * kElements);
    }
    for (int i = 0; i < all; ++i) {
      const bool committed = i < cache_.size();
      if (!committed && !staged_[at(i - cache_.size())].written) continue;
      const int row = committed ? rows_[at(i)] : staged_[at(i - cache_.size())].row;
      const Elements key = elements(row, layer, head, true);
      const Elements value = elements(row, layer, head, false);
      demand(std::memcmp(key.data(), keys.data() + i * kElements, sizeof(key)) == 0, "a key");
      demand(std::memcmp(value.data(), v + i * kElements, sizeof(value)) == 0, "a value");
    }
  }

  Choices& choices_;
  Cache cache_;
  std::vector<int> rows_;  // numbers of the committed rows
  std::vector<Staged> staged_;
  std::array<std::optional<Saved>, 3> saved_;
  int next_row_ = 0;
  bool committed_once_ = false;
};

}  // namespace fuzz
