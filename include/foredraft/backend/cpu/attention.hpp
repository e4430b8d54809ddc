#pragma once

#include <cstddef>
#include <cstdint>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/attention_keys.hpp>
#include <foredraft/backend/cpu/attention_values.hpp>
#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/quantize_row.hpp>
#include <foredraft/backend/cpu/query_tile.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/ring_place.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Attention of some queries of one sequence to one KV head. Query u is row u / group of the
/// sequence and query head u % group of those that share the KV head. Plain data: it crosses into
/// units of other instruction sets.
struct AttendTask {
  const float* q = nullptr;    // row 0, first query head of the KV head; [n_rows, row_stride]
  float* out = nullptr;        // likewise, written
  std::size_t row_stride = 0;  // n_heads * d_head
  RowFormats formats = {};
  const std::byte* k = nullptr;  // rows of the KV head, see AnyRows::Layer
  const std::byte* v = nullptr;  // likewise
  int d_head = 0;
  int group = 1;
  float scale = 1.0f;
  int window = 0;     // newest positions that a row sees, its own included; 0: all
  int ring = 0;       // storage rows that positions take in turn, whole blocks; 0: each has its own
  int sinks = 0;      // first positions that a row sees besides those in its window
  int pinned = 0;     // storage rows before the ring, whole blocks
  Position size = 0;  // committed positions
  NodeIndex first_node = 0;                  // of row 0
  const NodeIndex* path = nullptr;           // as in SequenceRows; null for a chain
  const std::int32_t* path_begin = nullptr;  // likewise
  int begin = 0;                             // queries begin .. end - 1
  int end = 0;
  float* workspace = nullptr;  // [attend_workspace(d_head)]
  float softcap = 0.0f;        // of scores; 0: none

  /// Positions up to a row's own, which it sees as far back as the window reaches.
  [[gnu::always_inline]] int visible(int row) const noexcept {
    if (path_begin == nullptr) return size + first_node + row + 1;
    return size + path_begin[row + 1] - path_begin[row];
  }
  /// The first position that a row sees.
  [[gnu::always_inline]] Position first_visible(int row) const noexcept {
    const int up_to = visible(row);
    return window == 0 || up_to <= window ? 0 : up_to - window;
  }
  /// Where a row of the cache lies.
  [[gnu::always_inline]] std::int32_t place(std::int32_t row) const noexcept {
    return ring_place(row, pinned, ring);
  }
  /// As SequenceRows::row_of, which belongs to units of another instruction set.
  [[gnu::always_inline]] std::int32_t row_of(int row, Position position) const noexcept {
    if (position < size || path_begin == nullptr) return place(position);
    return place(size + path[path_begin[row] + position - size]);
  }
};

/// Softmax(q K^T * scale) V over blocks of 32 positions, with a running maximum (Milakov and
/// Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135).
///
/// What is computed for a query is one arithmetic, whatever stands beside it: blocks begin at
/// multiples of 32 positions; a score is a chain of fma along d_head; exponentials are summed in
/// lane position mod 16, the lanes in one tree at the end; P V is a chain of fma in the order of
/// positions, masked positions left out, or, of values in q8_0, of whole blocks. Keys are stored in the
/// order in which scores need them, and blocks serve all queries of a tile. In a tree, the block that
/// holds the first staged position and all later ones are gathered along each row's own path, so that a
/// node is met at its position and not at its index.
///
/// A row with a window meets the blocks that hold something of it, and no others. In the first of
/// them positions before the window are masked, like those behind the row's own in the last: what
/// is stored there makes no difference, so a ring may have overwritten it. Where there are sinks,
/// those before its window come first, in blocks of their own.
///
/// How keys and values are stored is known to one part each, and any pair of them goes together.
/// With keys in q8_0 queries are quantized, too, each alone; with values in q8_0 weights are, where a
/// query sees the whole block.
template <class Arch>
class Attention {
 public:
  using V = Vec16<Arch>;

  static constexpr int kTile = QueryTile::kQueries;
  static constexpr int kBlock = QueryTile::kPositions;
  /// Floats of workspace, for each dimension, that hold kTile quantized queries and more.
  static constexpr int kQueryFloats = kTile / 2;
  static_assert(Activations::bytes(ActivationFormat::kInt8Per32, kTile, 64) <=
                kQueryFloats * 64 * sizeof(float));

  /// Floats of workspace for one worker.
  static constexpr std::size_t workspace(int d_head) noexcept {
    constexpr int kBlocks = AttentionKeys<Arch>::kFloats + AttentionValues<Arch>::kFloats;
    return idx(tile_floats(QueryTile::padded(d_head)) + kBlocks * QueryTile::padded(d_head));
  }

  explicit Attention(const AttendTask& task) noexcept
      : task_(task),
        tile_(tile_in(task)),
        keys_(task.formats.k, task.k, task.d_head, tile_.d, task.workspace + tile_floats(tile_.d)),
        values_(task.formats.v, task.v, task.d_head, tile_.d,
                task.workspace + tile_floats(tile_.d) + AttentionKeys<Arch>::kFloats * tile_.d) {}

  void run() noexcept {
    for (int first = task_.begin; first < task_.end; first += kTile) {
      first_ = first;
      count_ = task_.end - first < kTile ? task_.end - first : kTile;
      run_tile();
    }
  }

 private:
  static constexpr int kQueries = kQueriesAtOnce<Arch>;

  /// What tile_in() takes of the workspace.
  [[gnu::always_inline]] static constexpr int tile_floats(int d) noexcept {
    return (2 * kTile + kQueryFloats) * d + kTile * (16 + 16 + kBlock);
  }
  static QueryTile tile_in(const AttendTask& task) noexcept {
    float* at = task.workspace;
    const auto take = [&at](int n) {
      float* const from = at;
      at += n;
      return from;
    };
    QueryTile tile;
    tile.d_head = task.d_head;
    tile.d = QueryTile::padded(task.d_head);
    tile.q = take(kTile * tile.d);
    tile.sum_v = take(kTile * tile.d);
    tile.codes = {ActivationFormat::kInt8Per32, 0, task.d_head,
                  reinterpret_cast<std::byte*>(take(kQueryFloats * tile.d))};
    tile.lanes = take(kTile * 16);
    tile.greatest = take(kTile * 16);  // so that scores begin at a vector
    tile.scores = take(kTile * kBlock);
    return tile;
  }

  /// The block that follows is fetched while this one is computed, line by line beside the
  /// arithmetic: memory then never waits, and reading hides behind six queries or more.
  std::int32_t next_place() const noexcept { return next_ < 0 ? -1 : task_.place(next_); }

  int row_of(int i) const noexcept { return (first_ + i) / task_.group; }
  std::size_t place_of(int i) const noexcept {
    const int head = (first_ + i) % task_.group;
    return idx(row_of(i)) * task_.row_stride + idx(head) * idx(task_.d_head);
  }

  void run_tile() noexcept {
    for (int i = 0; i < count_; ++i) {
      const float* q = task_.q + place_of(i);
      for (int d = 0; d < task_.d_head; ++d) tile_.q[i * tile_.d + d] = q[d] * task_.scale;
      for (int d = 0; d < tile_.d; ++d) tile_.sum_v[i * tile_.d + d] = 0.0f;
      for (int lane = 0; lane < 16; ++lane) tile_.lanes[i * 16 + lane] = 0.0f;
      tile_.greatest[i] = -__builtin_inff();
    }
    if (keys_.quantized()) {
      tile_.codes.n_rows = count_;
      for (int i = 0; i < count_; ++i)
        quantize_row<Arch>(tile_.q + i * tile_.d, tile_.codes, i, 0, task_.d_head);
    }
    const bool chain = task_.path_begin == nullptr;
    // A chain's rows are stored at their positions, so its queries share all blocks.
    const int shared = chain ? task_.visible(row_of(count_ - 1)) : key_block_of(task_.size);
    if (task_.sinks > 0) attend_sinks(shared);
    int seeing = 0;
    for (int begin = first_block(); begin < shared; begin += kBlock) {
      while (task_.visible(row_of(seeing)) <= begin)
        ++seeing;  // earlier rows end before this block
      const int n = shared - begin < kBlock ? shared - begin : kBlock;
      next_ = begin + kBlock < shared ? begin + kBlock : -1;
      take(begin, count_ - seeing);
      attend_shared(n, begin, seeing);
    }
    next_ = -1;
    if (!chain) attend_paths(shared);
    finish();
  }

  /// Beginning of the first block that a query of the tile sees something of.
  int first_block() const noexcept {
    if (task_.window == 0) return 0;
    int first = task_.first_visible(row_of(0));
    for (int i = 1; i < count_; ++i) {
      const int here = task_.first_visible(row_of(i));
      first = here < first ? here : first;
    }
    return first / kBlock * kBlock;
  }

  /// Take up the block of positions from `begin` on as it is stored. Some of them may not be there.
  void take(Position begin, int n_queries) noexcept {
    keys_.take(task_.place(begin), n_queries);
    values_.take(task_.place(begin), n_queries);
  }

  /// Take up the n positions from `begin` on as `row` sees them.
  void gather(int row, Position begin, int n) noexcept {
    std::int32_t rows[kBlock] = {};
    for (int p = 0; p < n; ++p) rows[p] = task_.row_of(row, begin + p);
    keys_.gather(rows, n);
    values_.gather(rows, n);
  }

  /// The queries from `seeing` on meet the block at hand, those whose window begins behind it left
  /// out. In a tree these may lie between others.
  void attend_shared(int n, int begin, int seeing) noexcept {
    if (task_.window == 0) return attend_block(n, begin, seeing, count_);
    const auto sees = [&](int i) { return task_.first_visible(row_of(i)) < begin + n; };
    for (int i = seeing; i < count_;) {
      int last = i;
      while (last < count_ && sees(last)) ++last;
      if (last > i) attend_block(n, begin, i, last);
      i = last + 1;
    }
  }

  /// Sinks before each row's window.
  void attend_sinks(int shared) noexcept {
    next_ = -1;
    for (int begin = 0; begin < task_.sinks; begin += kBlock) {
      const bool as_stored = begin < shared;
      if (as_stored) take(begin, count_);
      for (int i = 0; i < count_;) {
        const int row = row_of(i);
        int last = i + 1;
        while (last < count_ && row_of(last) == row) ++last;
        const int first = task_.first_visible(row);
        int n = (first < task_.sinks ? first : task_.sinks) - begin;
        n = n < kBlock ? n : kBlock;
        if (n > 0) {
          if (!as_stored) gather(row, begin, n);
          attend_block(n, begin, i, last, false);
        }
        i = last;
      }
    }
  }

  /// Positions from `shared` on, each row's along its own path.
  void attend_paths(int shared) noexcept {
    for (int i = 0; i < count_;) {
      const int row = row_of(i);
      int last = i + 1;
      while (last < count_ && row_of(last) == row) ++last;
      const int visible = task_.visible(row);
      const int first = task_.first_visible(row) / kBlock * kBlock;
      for (int begin = first > shared ? first : shared; begin < visible; begin += kBlock) {
        const int n = visible - begin < kBlock ? visible - begin : kBlock;
        gather(row, begin, n);
        attend_block(n, begin, i, last);
      }
      i = last;
    }
  }

  /// Queries first .. last - 1 of the tile meet the n positions of the block at hand, from `begin`
  /// on. @param windowed  those before a query's window are left out
  void attend_block(int n, int begin, int first, int last, bool windowed = true) noexcept {
    const std::int32_t next = next_place();
    keys_.score(tile_, first, last, next);
    if (task_.softcap != 0.0f) {
      soft_cap<Arch>(tile_.scores + first * kBlock, (last - first) * kBlock, task_.softcap);
    }
    // Later rows of a chain see more of the block than earlier ones.
    const auto seen = [&](int query) {
      const int most = task_.visible(row_of(query)) - begin;
      return most < n ? most : n;
    };
    // And with a window, less of its beginning.
    const auto unseen = [&](int query) {
      const int before =
          task_.window == 0 || !windowed ? 0 : task_.first_visible(row_of(query)) - begin;
      return before > 0 ? before : 0;
    };
    for (int i = first; i < last; ++i) exponentiate(i, unseen(i), seen(i));
    for (int i = first; i < last;) {
      int alike = 1;
      while (alike < kQueries && i + alike < last && seen(i + alike) == seen(i) &&
             unseen(i + alike) == unseen(i))
        ++alike;
      values_.add(tile_, i, alike, unseen(i), seen(i), i == first ? next : -1);
      i += alike;
    }
  }

  /// Scores of one query become weights exp(score - greatest so far), 0 before position `from` and
  /// from position n on.
  void exponentiate(int i, int from, int n) noexcept {
    float* s = tile_.scores + i * kBlock;
    for (int p = 0; p < from; ++p) s[p] = -__builtin_inff();
    for (int p = n; p < kBlock; ++p) s[p] = -__builtin_inff();
    const V low = V::load(s);
    const V high = V::load(s + 16);
    float* lanes = tile_.lanes + i * 16;
    V sums = V::load(lanes);
    const float most = max(low, high).greatest();
    if (most > tile_.greatest[i]) {
      const V shrink = exp<Arch>(V::broadcast(tile_.greatest[i] - most));  // 0 for the first block
      sums = sums * shrink;
      float* sum_v = tile_.sum_v + i * tile_.d;
      for (int d = 0; d < tile_.d; d += 16) (V::load(sum_v + d) * shrink).store(sum_v + d);
      tile_.greatest[i] = most;
    }
    const V shift = V::broadcast(tile_.greatest[i]);
    const V p_low = exp<Arch>(low - shift);
    const V p_high = exp<Arch>(high - shift);
    p_low.store(s);
    p_high.store(s + 16);
    (sums + p_low + p_high).store(lanes);
  }

  void finish() noexcept {
    for (int i = 0; i < count_; ++i) {
      const float factor = 1.0f / V::load(tile_.lanes + i * 16).sum();
      float* out = task_.out + place_of(i);
      for (int d = 0; d < task_.d_head; ++d) out[d] = tile_.sum_v[i * tile_.d + d] * factor;
    }
  }

  const AttendTask task_;
  QueryTile tile_;
  AttentionKeys<Arch> keys_;
  AttentionValues<Arch> values_;
  int first_ = 0;  // queries of the tile: first_ .. first_ + count_ - 1
  int count_ = 0;
  int next_ = -1;  // first position of the block to be fetched, or none
};

/// Floats of workspace for one worker, with any instruction set.
constexpr std::size_t attend_workspace(int d_head) noexcept {
  return Attention<Portable>::workspace(d_head);
}

/// @cost 2 * d_head multiply-adds for each query and position it sees; no allocation
template <class Arch>
void attend(const AttendTask& task) noexcept {
  Attention<Arch>(task).run();
}

}  // namespace foredraft::inline v0::cpu
