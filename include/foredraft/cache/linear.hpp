#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <foredraft/backend/key_blocks.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/checked.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/pages.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Keys and values of every position, in order: the cache of full attention.
///
/// Staged rows lie in place behind the committed ones, row size() + node. So a chain's commit
/// moves no row, and a tree's commit closes the gaps that the losers leave. Keys of whole blocks
/// are kept by dimensions, see backend/key_blocks.hpp.
/// @tparam T  float; f16; or q8_0: 0.53 times the memory of f16, keys and queries rounded to 8 bits
/// as well as values, and heads of a multiple of 64 dimensions only
/// @cost stage O(nodes), for a tree O(nodes * depth); commit O(1) for a chain, else O(rows kept *
/// layers)
template <typename T>
  requires std::same_as<T, float> || std::same_as<T, f16> || std::same_as<T, q8_0>
class LinearCache {
 public:
  using value_type = T;

  struct Snapshot {
    int size = 0;
    std::vector<T> k;  // [n_layers, n_kv_heads, size, row_elements(d_head)]
    std::vector<T> v;  // the same
  };

  /// @param n_ctx positions it can hold, all of which take memory as soon as a few are used, because
  /// they lie in huge pages; 0: as many as the model was trained for, and only those that are used
  /// take memory
  /// @param max_staged most nodes of a pass, the block size of prefill included
  /// @errors kInvalidOption (q8_0 also where d_head is no multiple of 64), kOutOfMemory
  explicit LinearCache(CacheShape shape, Dim n_ctx = 0, Dim max_staged = 512)
      : shape_(shape), capacity_(n_ctx > 0 ? n_ctx : shape.n_ctx), max_staged_(max_staged) {
    if (shape.n_layers < 1 || shape.n_kv_heads < 1 || shape.d_head < 1 || capacity_ < 1 ||
        max_staged < 1) {
      throw Error(ErrorCode::kInvalidOption, "an empty dimension of a cache", "all dimensions >= 1",
                  "take the shape from Model::shape()");
    }
    if (shape.d_head % kHeadMultiple<T> != 0) {
      throw Error(ErrorCode::kInvalidOption,
                  "heads of " + std::to_string(shape.d_head) + " dimensions in a quantized cache",
                  "a multiple of " + std::to_string(kHeadMultiple<T>), "use a cache of f16");
    }
    // Whole blocks of rows, so that those of every head begin at cache lines.
    const std::size_t blocks =
        (index(capacity_) + index(max_staged_) + kKeyBlock - 1) / std::size_t{kKeyBlock};
    head_stride_ = blocks * kKeyBlock * row_size();
    k_ = allocate(n_ctx > 0);
    v_ = allocate(n_ctx > 0);
    block_.resize(kKeyBlock * row_size());
    nodes_.reserve(static_cast<std::size_t>(max_staged_));
    renumbered_.reserve(static_cast<std::size_t>(max_staged_));
  }

  /// What is moved from is left without room for anything.
  LinearCache(LinearCache&& other) noexcept { swap(other); }
  LinearCache& operator=(LinearCache&& other) noexcept {
    LinearCache(std::move(other)).swap(*this);
    return *this;
  }
  LinearCache(const LinearCache&) = delete;
  LinearCache& operator=(const LinearCache&) = delete;
  ~LinearCache() = default;

  int size() const noexcept { return size_; }
  int capacity() const noexcept { return capacity_; }
  int max_staged() const noexcept { return max_staged_; }
  int staged() const noexcept { return static_cast<int>(nodes_.size()); }
  /// Bytes that a cache with these dimensions takes when it is full.
  static double full_bytes(CacheShape shape, int n_ctx) noexcept {
    return 2.0 * sizeof(T) * shape.n_layers * shape.n_kv_heads * row_elements<T>(shape.d_head) *
           n_ctx;
  }

  /// @errors kInvalidDraft where there are too many nodes or a parent is not staged
  void stage(std::span<const Node> nodes) {
    const int before = staged();
    if (static_cast<std::size_t>(before) + nodes.size() > static_cast<std::size_t>(max_staged_)) {
      throw Error(ErrorCode::kInvalidDraft, std::to_string(nodes.size()) + " more staged nodes",
                  "at most " + std::to_string(max_staged_) + " in all",
                  "make the cache with a larger max_staged");
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].parent >= kCommitted && nodes[i].parent < before + static_cast<int>(i)) continue;
      throw Error(ErrorCode::kInvalidDraft, "parent " + std::to_string(nodes[i].parent),
                  "a node staged before its child", "");
    }
    nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
    // Only reserving may throw: first make room, then describe the paths in it.
    try {
      if (!nodes_form_chain()) {
        path_begin_.reserve(nodes_.size() + 1);
        path_.reserve(total_path_length());
      }
    } catch (...) {
      nodes_.resize(index(before));
      throw;
    }
    describe_paths();
  }

  void commit(std::span<const NodeIndex> path) noexcept {
    const NodeIndex end = path.empty() ? kCommitted : path.back();
    for (std::size_t i = 0; i < path.size(); ++i) move_row(path[i], static_cast<int>(i));
    // The subtree below the end of the path survives. Indices only fall, so rows can be moved in
    // ascending order.
    renumbered_.assign(nodes_.size(), kDropped);
    int kept = 0;
    for (int i = 0; i < staged(); ++i) {
      const NodeIndex parent = nodes_[index(i)].parent;
      const bool root = parent == end && i > end;
      if (!root && (parent < 0 || renumbered_[index(parent)] == kDropped)) continue;
      move_row(i, static_cast<int>(path.size()) + kept);
      nodes_[index(kept)] = {nodes_[index(i)].token,
                             root ? kCommitted : renumbered_[index(parent)]};
      renumbered_[index(i)] = kept++;
    }
    nodes_.resize(index(kept));
    size_ += static_cast<int>(path.size());
    describe_paths();
  }

  void discard() noexcept {
    nodes_.clear();
    describe_paths();
  }

  /// Forget all positions from `n` on, and what is staged.
  void truncate(int n) noexcept {
    discard();
    size_ = std::clamp(n, 0, size_);
    const Position whole = positions_in_key_blocks(size_);
    if (whole >= in_blocks_) return;
    if (whole < size_) keys_to_rows(whole);  // its block is incomplete now
    in_blocks_ = whole;
  }

  Snapshot snapshot() const {
    Snapshot snapshot{size_, {}, {}};
    const std::size_t row = static_cast<std::size_t>(size_) * row_size();
    for (std::size_t head = 0; head < heads(); ++head) {
      const T* k = keys() + head * head_stride_;
      const T* v = values() + head * head_stride_;
      snapshot.k.insert(snapshot.k.end(), k, k + row);
      snapshot.v.insert(snapshot.v.end(), v, v + row);
      T* const rows = snapshot.k.data() + head * row;
      for (std::size_t i = 0; i < index(in_blocks_) * row_size(); i += block_.size()) {
        key_block_to_rows(k + i, shape_.d_head, rows + i);
      }
    }
    return snapshot;
  }

  /// @errors kContextOverflow where the snapshot comes from a larger cache; kInvalidOption where it
  /// comes from one of another shape
  void restore(const Snapshot& snapshot) {
    if (snapshot.size > capacity_) {
      throw Error(ErrorCode::kContextOverflow,
                  "a snapshot of " + std::to_string(snapshot.size) + " positions",
                  "at most " + std::to_string(capacity_), "");
    }
    const std::size_t row = index(std::max(snapshot.size, 0)) * row_size();
    if (snapshot.size < 0 || snapshot.k.size() != heads() * row ||
        snapshot.v.size() != snapshot.k.size()) {
      throw Error(ErrorCode::kInvalidOption,
                  "a snapshot of " + std::to_string(snapshot.k.size()) + " keys and " +
                      std::to_string(snapshot.v.size()) + " values",
                  std::to_string(heads() * row) + " of each for " + std::to_string(snapshot.size) +
                      " positions of this cache",
                  "restore it in a cache of the same model");
    }
    for (std::size_t head = 0; head < heads(); ++head) {
      std::copy_n(snapshot.k.data() + head * row, row, keys() + head * head_stride_);
      std::copy_n(snapshot.v.data() + head * row, row, values() + head * head_stride_);
    }
    discard();
    size_ = snapshot.size;
    in_blocks_ = 0;
  }

  // For targets.

  /// Keys and values of one layer; see KvLayer.
  KvLayer<T> layer(int layer) noexcept {
    const std::size_t offset = index(layer) * index(shape_.n_kv_heads) * head_stride_;
    return {keys() + offset, values() + offset, head_stride_, size_, in_blocks_};
  }

  /// A pass has put the keys of all whole blocks in order, in every layer.
  void key_blocks_completed() noexcept { in_blocks_ = positions_in_key_blocks(size_); }

  /// The staged nodes first .. first + count - 1 as rows `first_row` and on of a pass. Good until
  /// the next change.
  SequenceRows rows(NodeIndex first, int count, int first_row) const noexcept {
    SequenceRows rows{first_row, count, first, size_, {}, {}};
    if (!chain_) {
      rows.path = path_;
      rows.path_begin = std::span(path_begin_).subspan(index(first), index(count) + 1);
    }
    return rows;
  }

  /// Position of a staged node.
  Position position(NodeIndex node) const noexcept {
    int depth = 0;
    if (chain_) return size_ + node;
    for (; nodes_[index(node)].parent >= 0; node = nodes_[index(node)].parent) ++depth;
    return size_ + depth;
  }
  TokenId token(NodeIndex node) const noexcept { return nodes_[index(node)].token; }

 private:
  static constexpr NodeIndex kDropped = -2;

  LinearCache() noexcept = default;
  void swap(LinearCache& other) noexcept {
    const auto all = [](LinearCache& c) {
      return std::tie(c.shape_, c.capacity_, c.max_staged_, c.head_stride_, c.k_, c.v_, c.block_,
                      c.size_, c.in_blocks_, c.chain_, c.nodes_, c.path_, c.path_begin_,
                      c.renumbered_);
    };
    auto mine = all(*this);
    auto theirs = all(other);
    mine.swap(theirs);
  }

  static std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }
  std::size_t row_size() const noexcept { return index(row_elements<T>(shape_.d_head)); }
  std::size_t heads() const noexcept { return index(shape_.n_layers) * index(shape_.n_kv_heads); }

  /// @shape [n_layers, n_kv_heads, rows, row_elements(d_head)]
  Pages allocate(bool huge) const {
    const auto elements = checked_mul(heads(), head_stride_);
    const auto bytes = elements ? checked_mul(*elements, sizeof(T)) : std::nullopt;
    Pages memory = bytes ? take_pages(*bytes, huge) : nullptr;
    if (memory == nullptr) {
      throw Error(ErrorCode::kOutOfMemory,
                  "no memory for a cache of " + std::to_string(capacity_) + " positions",
                  std::to_string(full_bytes(shape_, capacity_) / 1e6) + " MB",
                  "use a smaller context");
    }
    return memory;
  }
  // T is an implicit-lifetime type, so raw memory needs no constructor.
  T* keys() const noexcept { return reinterpret_cast<T*>(k_.get()); }
  T* values() const noexcept { return reinterpret_cast<T*>(v_.get()); }

  void move_row(NodeIndex from, NodeIndex to) noexcept {
    if (from == to) return;
    for (T* base : {keys(), values()}) {
      for (std::size_t head = 0; head < heads(); ++head) {
        T* rows = base + head * head_stride_ + index(size_) * row_size();
        std::memcpy(rows + index(to) * row_size(), rows + index(from) * row_size(),
                    row_size() * sizeof(T));
      }
    }
  }

  /// The keys of a block become rows again, in all layers and heads.
  void keys_to_rows(Position first) noexcept {
    for (std::size_t head = 0; head < heads(); ++head) {
      T* const block = keys() + head * head_stride_ + index(first) * row_size();
      std::copy_n(block, block_.size(), block_.data());
      key_block_to_rows(block_.data(), shape_.d_head, block);
    }
  }

  bool nodes_form_chain() const noexcept {
    for (int i = 0; i < staged(); ++i) {
      if (nodes_[index(i)].parent != i - 1) return false;
    }
    return true;
  }

  std::size_t total_path_length() const noexcept {
    std::size_t total = 0;
    for (int i = 0; i < staged(); ++i) {
      for (NodeIndex node = i; node >= 0; node = nodes_[index(node)].parent) ++total;
    }
    return total;
  }

  /// Storage rows of each node's own path, for trees. A path is its parent's path and one more row.
  void describe_paths() noexcept {
    path_.clear();
    path_begin_.clear();
    chain_ = nodes_form_chain();
    if (chain_) return;
    path_begin_.push_back(0);
    for (int i = 0; i < staged(); ++i) {
      const NodeIndex parent = nodes_[index(i)].parent;
      if (parent >= 0) {
        for (std::int32_t j = path_begin_[index(parent)]; j < path_begin_[index(parent) + 1]; ++j) {
          path_.push_back(path_[index(j)]);
        }
      }
      path_.push_back(size_ + i);
      path_begin_.push_back(static_cast<std::int32_t>(path_.size()));
    }
  }

  CacheShape shape_;
  int capacity_ = 0;
  int max_staged_ = 0;
  std::size_t head_stride_ = 0;  // elements between two heads
  Pages k_;
  Pages v_;
  std::vector<T> block_;  // [kKeyBlock, row_elements(d_head)] scratch of truncate
  int size_ = 0;
  int in_blocks_ = 0;                     // positions whose keys lie in blocks
  bool chain_ = true;                     // the staged nodes form one chain: no paths needed
  std::vector<Node> nodes_;               // [staged]
  std::vector<std::int32_t> path_;        // concatenated storage rows, trees only
  std::vector<std::int32_t> path_begin_;  // [staged + 1], trees only
  std::vector<NodeIndex> renumbered_;     // scratch of commit
};

static_assert(Cache<LinearCache<float>> && Truncatable<LinearCache<float>>);
static_assert(Cache<LinearCache<f16>> && Truncatable<LinearCache<f16>>);
static_assert(Cache<LinearCache<q8_0>> && Truncatable<LinearCache<q8_0>>);

}  // namespace foredraft::inline v0
