#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/core/error.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"

namespace fuzz {

using foredraft::idx;

/// A cache beside what it has to hold: a list of rows. Every row has bytes of its own, so one that
/// is misplaced, or written over, is seen at once. Of a layer with a ring that is what the rows that
/// may follow can see: those of the window before the first staged one.
/// @tparam Cache  LinearCache or RotatingCache, over cpu::AnyRows
template <typename Cache>
class CacheTrial {
 public:
  CacheTrial(Choices& choices, foredraft::RowFormats formats)
      : choices_(choices), shape_(shape_of(formats)), cache_(shape_, kCapacity, kStaged) {}

  /// @return whether anything was committed
  bool run() {
    read_text(static_cast<int>(choices_.below(kCapacity - kStaged)));
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
  using Layer = typename Cache::Rows::Layer;
  using Node = foredraft::Node;
  using NodeIndex = foredraft::NodeIndex;

  static constexpr int kHead = 64;  // what every format can hold
  static constexpr int kLayers = 2, kHeads = 2;
  static constexpr int kWindow = 9;  // of the second layer
  static constexpr int kCapacity = 200, kStaged = 40;
  static constexpr int kRing = 64;  // what RotatingCache makes of them
  static constexpr bool kRings =
      std::is_same_v<Cache, foredraft::RotatingCache<typename Cache::Rows>>;

  static foredraft::CacheShape shape_of(foredraft::RowFormats formats) {
    foredraft::CacheShape shape{{{kHeads, kHead}, {kHeads, kHead, kWindow}}, kCapacity};
    shape.formats = formats;
    return shape;
  }

  /// Bytes of a row's keys or values in one head, from the row's number.
  static std::vector<unsigned char> bytes_of(int row, int layer, int head, bool key,
                                             std::size_t size) {
    std::vector<unsigned char> all(size);
    const int seed = ((row * kLayers + layer) * kHeads + head) * 2 + key;
    for (std::size_t i = 0; i < size; ++i) {
      all[i] = static_cast<unsigned char>(idx(seed) * 37 + i * 11);
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

  int n_staged() const { return static_cast<int>(staged_.size()); }

  void stage() {
    const int count = static_cast<int>(choices_.below(choices_.once_in(8) ? kStaged + 2 : 6));
    const bool chain = choices_.flag();
    std::vector<Node> nodes;
    bool valid = n_staged() + count <= kStaged;
    for (int i = 0; i < count; ++i) {
      const int known = n_staged() + i;
      NodeIndex parent = chain ? known - 1 : static_cast<int>(choices_.below(idx(known + 1))) - 1;
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
    add_staged(nodes);
    if (!choices_.once_in(4)) forward();
  }

  /// So many tokens at the beginning, in chains that stand: rings wrap from the first choice on.
  void read_text(int n) {
    while (n > 0) {
      std::vector<Node> nodes;
      std::vector<NodeIndex> path;
      for (int i = 0; i < std::min(n, kStaged); ++i) {
        nodes.push_back({i, i - 1});
        path.push_back(i);
      }
      cache_.stage(nodes);
      add_staged(nodes);
      forward();
      cache_.commit(path);
      for (const Staged& staged : staged_) rows_.push_back(staged.row);
      staged_.clear();
      n -= static_cast<int>(nodes.size());
    }
  }

  void add_staged(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) staged_.push_back({node, next_row_++, false});
    most_rows_ = std::max(most_rows_, cache_.size() + n_staged());
  }

  /// What a pass does to a cache.
  void forward() {
    for (int layer = 0; layer < kLayers; ++layer) {
      const Layer kv = cache_.layer(layer);
      for (int head = 0; head < kHeads; ++head) {
        for (int i = 0; i < n_staged(); ++i) {
          const int row = staged_[idx(i)].row;
          const auto key = bytes_of(row, layer, head, true, kv.k.row_bytes);
          const auto value = bytes_of(row, layer, head, false, kv.v.row_bytes);
          kv.put_key(head, kv.size + i, kHead, reinterpret_cast<const std::byte*>(key.data()));
          std::memcpy(kv.v.row(head, kv.place(kv.size + i)), value.data(), value.size());
        }
      }
    }
    for (Staged& staged : staged_) staged.written = true;
  }

  void commit() {
    std::vector<NodeIndex> path;
    NodeIndex node = static_cast<int>(choices_.below(idx(n_staged() + 1))) - 1;
    for (; node >= 0; node = staged_[idx(node)].node.parent) path.insert(path.begin(), node);
    if (rows_.size() + path.size() > kCapacity) return;
    const auto unwritten = [&](NodeIndex i) { return !staged_[idx(i)].written; };
    if (std::any_of(path.begin(), path.end(), unwritten)) forward();
    cache_.commit(path);
    committed_once_ |= !path.empty();

    for (const NodeIndex i : path) rows_.push_back(staged_[idx(i)].row);
    // Who descends from the end of the path stays, renumbered in order.
    const NodeIndex end = path.empty() ? foredraft::kCommitted : path.back();
    std::vector<Staged> kept;
    std::vector<NodeIndex> number(staged_.size(), -2);  // of those that stay
    for (int i = 0; i < n_staged(); ++i) {
      Staged staged = staged_[idx(i)];
      NodeIndex& parent = staged.node.parent;
      if (parent == end) {
        parent = foredraft::kCommitted;
      } else if (parent >= 0 && number[idx(parent)] >= 0) {
        parent = number[idx(parent)];
      } else {
        continue;
      }
      number[idx(i)] = static_cast<int>(kept.size());
      kept.push_back(staged);
    }
    staged_ = kept;
  }

  void truncate() {
    const int n = static_cast<int>(choices_.below(idx(kCapacity + 2))) - 1;
    cache_.truncate(n);
    const std::size_t asked = std::min(rows_.size(), idx(std::max(n, 0)));
    // What rings have lost cannot be gone back to.
    const bool may_forget = kRings && (restored_ || most_rows_ > kRing);
    const bool forgot = may_forget && cache_.size() == 0;
    rows_.resize(forgot ? 0 : asked);
    if (rows_.empty()) {
      most_rows_ = 0;
      restored_ = false;
    }
    staged_.clear();
  }

  void snapshot() {
    std::optional<Saved>& place = saved_[choices_.below(saved_.size())];
    place = Saved{cache_.snapshot(), rows_};
  }

  void restore() {
    const std::optional<Saved>& place = saved_[choices_.below(saved_.size())];
    cache_.restore(place ? place->snapshot : typename Cache::Snapshot{});
    restored(place ? place->rows : std::vector<int>{});
  }

  void restored(std::vector<int> rows) {
    rows_ = std::move(rows);
    most_rows_ = cache_.size();
    restored_ = true;
    staged_.clear();
  }

  /// Snapshots that no cache of this shape has made are refused and leave everything as it was.
  void restore_hostile() {
    typename Cache::Snapshot hostile = cache_.snapshot();
    const auto own = hostile.rows;
    const int formats = hostile.formats;
    const auto change = [&](auto&& f) {
      if (hostile.rows.empty()) return;
      auto& copy = hostile.rows[choices_.below(hostile.rows.size())];
      auto changed = *copy;
      f(changed);
      copy = std::make_shared<const decltype(changed)>(std::move(changed));
    };
    switch (choices_.below(8)) {
      case 0: hostile.size = choices_.take<std::int32_t>(); break;
      case 1:
        change([&](auto& copy) {
          auto& half = choices_.flag() ? copy.k : copy.v;
          half.resize(choices_.below(half.size() + 9));
        });
        break;
      case 2: change([&](auto& copy) { copy.n = choices_.take<std::int32_t>(); }); break;
      case 3: hostile.size += choices_.flag() ? 1 : -1; break;
      case 4: hostile.size = choices_.flag() ? INT_MIN : INT_MAX; break;
      case 5: hostile.rows.clear(); break;
      case 6: hostile.formats = choices_.take<std::int32_t>(); break;
      case 7: {
        foredraft::CacheShape shape = shape_;
        if (choices_.flag()) {
          shape.layers.pop_back();
        } else {  // another format in one half
          const auto format = static_cast<int>(choices_.flag() ? shape.formats.k : shape.formats.v);
          shape.formats.k = shape.formats.v =
              static_cast<foredraft::RowFormat>((format + 1) % foredraft::kRowFormats);
        }
        Cache other(shape, kCapacity, kStaged);
        const std::vector<Node> nodes{{1, -1}, {2, 0}};
        const std::vector<NodeIndex> path{0, 1};
        other.stage(nodes);
        other.commit(path);
        hostile = other.snapshot();
        break;
      }
    }
    const auto equal = [](const auto& a, const auto& b) {
      return a->n == b->n && a->k.size() == b->k.size() && a->v.size() == b->v.size();
    };
    const bool same =
        hostile.size == cache_.size() && hostile.formats == formats &&
        std::equal(hostile.rows.begin(), hostile.rows.end(), own.begin(), own.end(), equal);
    try {
      cache_.restore(hostile);
      demand(same || (hostile.size == 0 && hostile.rows.empty()),
             "a snapshot of another shape was taken");
      restored(same ? rows_ : std::vector<int>{});
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
      const Node& node = staged_[idx(i)].node;
      chain = chain && node.parent == i - 1;
      std::vector<NodeIndex> path;
      for (int n = i; n >= 0; n = staged_[idx(n)].node.parent) path.insert(path.begin(), n);
      demand(cache_.token(i) == node.token, "token");
      demand(cache_.position(i) == cache_.size() + static_cast<int>(path.size()) - 1, "position");
      if (rows.chain()) continue;
      const auto begin = rows.path.begin() + rows.path_begin[idx(i)];
      demand(std::equal(path.begin(), path.end(), begin,
                        rows.path.begin() + rows.path_begin[idx(i) + 1]),
             "path");
    }
    demand(rows.chain() == chain, "chain");
  }

  void check_head(const Layer& kv, int layer, int head) {
    using namespace foredraft::cpu;
    const int all = cache_.size() + n_staged();
    const int first_seen = kv.ring > 0 ? std::max(0, cache_.size() - kWindow + 1) : 0;
    std::vector<std::byte> in_rows(kKeyBlock * kv.k.row_bytes);
    for (int block = first_seen / kKeyBlock * kKeyBlock; block < all; block += kKeyBlock) {
      const std::byte* const keys = in_rows.data();
      foredraft::with_element(kv.k.format, [&]<typename T>(foredraft::Element<T>) {
        load_keys<T>(kv.k.row(head, kv.place(block)), kHead, in_rows.data());
      });
      for (int i = std::max(block, first_seen); i < std::min(all, block + kKeyBlock); ++i) {
        const bool committed = i < cache_.size();
        if (!committed && !staged_[idx(i - cache_.size())].written) continue;
        const int row = committed ? rows_[idx(i)] : staged_[idx(i - cache_.size())].row;
        const auto key = bytes_of(row, layer, head, true, kv.k.row_bytes);
        const auto value = bytes_of(row, layer, head, false, kv.v.row_bytes);
        demand(std::memcmp(key.data(), keys + idx(i - block) * key.size(), key.size()) == 0,
               "a key");
        demand(std::memcmp(value.data(), kv.v.row(head, kv.place(i)), value.size()) == 0,
               "a value");
      }
    }
  }

  Choices& choices_;
  const foredraft::CacheShape shape_;
  Cache cache_;
  std::vector<int> rows_;  // numbers of the committed rows
  std::vector<Staged> staged_;
  std::array<std::optional<Saved>, 3> saved_;
  int next_row_ = 0;
  int most_rows_ = 0;      // that lay in the cache since it was empty, or restored
  bool restored_ = false;  // since it was empty
  bool committed_once_ = false;
};

}  // namespace fuzz
