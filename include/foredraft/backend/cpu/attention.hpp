#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/elementwise.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/key_value_block.hpp>
#include <foredraft/backend/cpu/matmul.hpp>
#include <foredraft/backend/cpu/quantize_row.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// Attention of some queries of one sequence to one KV head. Query u is row u / group of the
/// sequence and query head u % group of those that share the KV head. Plain data: it crosses into
/// units of other instruction sets.
template <typename T>
struct AttendTask {
  const float* q = nullptr;    // row 0, first query head of the KV head; [n_rows, row_stride]
  float* out = nullptr;        // likewise, written
  std::size_t row_stride = 0;  // n_heads * d_head
  const T* k = nullptr;        // of the KV head, see Rows::Layer
  const T* v = nullptr;        // likewise, [storage rows, row_elements(d_head)]
  int d_head = 0;
  int group = 1;
  float scale = 1.0f;
  int window = 0;     // newest positions that a row sees, its own included; 0: all
  int ring = 0;       // storage rows that positions take in turn, whole blocks; 0: each has its own
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
    return ring == 0 ? row : row % ring;
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
/// positions, masked positions left out. Committed blocks serve all queries of a tile; whole ones
/// have their keys stored in the order in which scores need them. In a tree, the block that holds
/// the first staged position and all later ones are gathered along each row's own path, so that a
/// node is met at its position and not at its index.
///
/// A row with a window meets the blocks that hold something of it, and no others. In the first of
/// them positions before the window are masked, like those behind the row's own in the last: what
/// is stored there makes no difference, so a ring may have overwritten it.
///
/// With a cache in q8_0 queries are quantized, too, each alone: a block of keys is two panels of a
/// matrix in Q8_0, and scores are the matrix product with it, integers within 32 dimensions.
/// Weights are multiplied with the scales of values, and then with their codes.
template <class Arch, typename T>
class Attention {
 public:
  using V = Vec16<Arch>;
  using Block = KeyValueBlock<Arch, T>;

  /// Queries that pass over the keys and values together, few enough for the second level cache.
  static constexpr int kTile = 32;
  static constexpr int kBlock = Block::kPositions;
  /// Floats of workspace, for each dimension, that hold kTile quantized queries and more.
  static constexpr int kQueryFloats = kTile / 2;
  static_assert(Activations::bytes(ActivationFormat::kInt8Per32, kTile, 64) <=
                kQueryFloats * 64 * sizeof(float));

  static constexpr int padded(int d_head) noexcept { return (d_head + 15) / 16 * 16; }

  explicit Attention(const AttendTask<T>& task) noexcept : task_(task), d_(padded(task.d_head)) {
    float* at = task.workspace;
    const auto take = [&at](int n) {
      float* const from = at;
      at += n;
      return from;
    };
    q_ = take(kTile * d_);
    sum_v_ = take(kTile * d_);
    lanes_ = take(kTile * 16);
    greatest_ = take(kTile);
    scores_ = take(kTile * kBlock);
    if constexpr (kQuantized) {
      queries_ = {ActivationFormat::kInt8Per32, 0, task.d_head,
                  reinterpret_cast<std::byte*>(take(kQueryFloats * d_))};
      block_.keys = reinterpret_cast<q8_0*>(take(kBlock * d_));
      block_.values = reinterpret_cast<q8_0*>(take(kBlock * d_));
    } else {
      block_.keys = take(kBlock * d_);
      block_.values = take(kBlock * d_);
    }
  }

  void run() noexcept {
    for (int first = task_.begin; first < task_.end; first += kTile) {
      first_ = first;
      count_ = task_.end - first < kTile ? task_.end - first : kTile;
      run_tile();
    }
  }

 private:
  /// Queries that share registers, with two accumulators of 16 lanes each: half the 32 registers of
  /// AVX-512, or of the 16 of others. Enough of them hide the latency of an fma.
  static constexpr int kQueries = Simd<Arch>::kLanes == 16 ? 8 : Simd<Arch>::kLanes == 8 ? 2 : 1;
  static constexpr bool kQuantized = std::is_same_v<T, q8_0>;

  /// f(Index<n>) for n in 1 .. kQueries
  template <typename F>
  [[gnu::always_inline]] static void with_count(int n, F&& f) {
    unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      if (n == i + 1) f(Index<i + 1>{});
    });
  }

  /// The block that follows is fetched while this one is computed, line by line beside the
  /// arithmetic: memory then never waits, and reading hides behind six queries or more.
  const T* next_block(const T* of) const noexcept {
    return next_ < 0 ? nullptr : of + first_element(next_);
  }
  /// Where the rows from a position on begin.
  std::size_t first_element(int position) const noexcept {
    return idx(task_.place(position)) * idx(row_elements<T>(task_.d_head));
  }
  /// 32 floats or halves, or more than the element of q8_0 that begins there, into the second-level
  /// cache: two blocks of halves with heads of 128 fill 32 KB, and what is fetched would drive out
  /// of the first level what is in use.
  [[gnu::always_inline]] static void fetch(const T* p) {
    __builtin_prefetch(p, 0, 2);
    if constexpr (sizeof(T) == 4) __builtin_prefetch(p + 16, 0, 2);
  }

  int row_of(int i) const noexcept { return (first_ + i) / task_.group; }
  std::size_t place_of(int i) const noexcept {
    const int head = (first_ + i) % task_.group;
    return idx(row_of(i)) * task_.row_stride + idx(head) * idx(task_.d_head);
  }

  void run_tile() noexcept {
    for (int i = 0; i < count_; ++i) {
      const float* q = task_.q + place_of(i);
      for (int d = 0; d < task_.d_head; ++d) q_[i * d_ + d] = q[d] * task_.scale;
      for (int d = 0; d < d_; ++d) sum_v_[i * d_ + d] = 0.0f;
      for (int lane = 0; lane < 16; ++lane) lanes_[i * 16 + lane] = 0.0f;
      greatest_[i] = -__builtin_inff();
    }
    if constexpr (kQuantized) {
      queries_.n_rows = count_;
      for (int i = 0; i < count_; ++i)
        quantize_row<Arch>(q_ + i * d_, queries_, i, 0, task_.d_head);
    }
    const bool chain = task_.path_begin == nullptr;
    const int whole = positions_in_key_blocks(task_.size);
    // A chain's rows are stored at their positions, so its queries share all blocks.
    const int shared = chain ? task_.visible(row_of(count_ - 1)) : whole;
    int seeing = 0;
    for (int begin = first_block(); begin < shared; begin += kBlock) {
      while (task_.visible(row_of(seeing)) <= begin)
        ++seeing;  // earlier rows end before this block
      const int n = shared - begin < kBlock ? shared - begin : kBlock;
      next_ = begin + kBlock < whole ? begin + kBlock : -1;
      if (begin < whole) {
        const T* k = task_.k + first_element(begin);
        const T* v = task_.v + first_element(begin);
        if (in_place(count_ - seeing)) {
          attend_shared(k, v, n, begin, seeing);
          continue;
        }
        if constexpr (!kQuantized) block_.load_whole(k, v, task_.d_head, d_);
      } else {
        std::int32_t rows[kBlock];
        for (int p = 0; p < n; ++p) rows[p] = task_.row_of(row_of(seeing), begin + p);
        block_.load(task_.k, task_.v, task_.d_head, d_, rows, n);
      }
      attend_shared(block_.keys, block_.values, n, begin, seeing);
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

  /// The queries from `seeing` on meet a block, those whose window begins behind it left out. In a
  /// tree these may lie between others.
  template <typename E>
  void attend_shared(const E* keys, const E* values, int n, int begin, int seeing) noexcept {
    if (task_.window == 0) return attend_block(keys, values, n, begin, seeing, count_);
    const auto sees = [&](int i) { return task_.first_visible(row_of(i)) < begin + n; };
    for (int i = seeing; i < count_;) {
      int last = i;
      while (last < count_ && sees(last)) ++last;
      if (last > i) attend_block(keys, values, n, begin, i, last);
      i = last + 1;
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
        std::int32_t rows[kBlock];
        for (int p = 0; p < n; ++p) rows[p] = task_.row_of(row, begin + p);
        block_.load(task_.k, task_.v, task_.d_head, d_, rows, n);
        attend_block(block_.keys, block_.values, n, begin, i, last);
      }
      i = last;
    }
  }

  /// Whether a whole block is used as it is stored. Where queries share registers, converting
  /// elements as they are loaded costs less than a copy that all groups of queries read.
  bool in_place(int n_queries) const noexcept {
    if constexpr (kQuantized) return true;
    return d_ == task_.d_head && (std::is_same_v<T, float> || kQueries > 1 || n_queries == 1);
  }

  /// Queries first .. last - 1 of the tile meet the block's n positions, from `begin` on.
  /// @shape keys [d_head, kBlock], values [kBlock, d_]; both of q8_0: a block as it is stored
  template <typename E>
  void attend_block(const E* keys, const E* values, int n, int begin, int first,
                    int last) noexcept {
    if constexpr (kQuantized) {
      score_panels(keys, first, last);
    } else {
      for (int i = first; i < last; i += kQueries) {
        with_count(last - i < kQueries ? last - i : kQueries,
                   [&](auto q) __attribute__((always_inline)) {
                     score<q>(keys, i, i == first ? next_block(task_.k) : nullptr);
                   });
      }
    }
    if (task_.softcap != 0.0f) {
      soft_cap<Arch>(scores_ + first * kBlock, (last - first) * kBlock, task_.softcap);
    }
    // Later rows of a chain see more of the block than earlier ones.
    const auto seen = [&](int query) {
      const int most = task_.visible(row_of(query)) - begin;
      return most < n ? most : n;
    };
    // And with a window, less of its beginning.
    const auto unseen = [&](int query) {
      const int before = task_.window == 0 ? 0 : task_.first_visible(row_of(query)) - begin;
      return before > 0 ? before : 0;
    };
    for (int i = first; i < last; ++i) exponentiate(i, unseen(i), seen(i));
    for (int i = first; i < last;) {
      int alike = 1;
      while (alike < kQueries && i + alike < last && seen(i + alike) == seen(i) &&
             unseen(i + alike) == unseen(i))
        ++alike;
      with_count(alike, [&](auto q) __attribute__((always_inline)) {
        add_values<q>(values, i, unseen(i), seen(i), i == first ? next_block(task_.v) : nullptr);
      });
      i += alike;
    }
  }

  /// Scores of Q queries at the block's 32 positions, those that are not there included.
  template <int Q, typename E>
  void score(const E* keys, int i, const T* next) noexcept {
    V sums[Q][2];
    unroll<Q>([&](auto q) __attribute__((always_inline)) { sums[q][0] = sums[q][1] = V::zero(); });
    const float* q_row = q_ + i * d_;
    for (int d = 0; d < task_.d_head; ++d, keys += kBlock) {
      const V low = Block::load16(keys);
      const V high = Block::load16(keys + 16);
      if (next != nullptr) {
        fetch(next);
        next += kBlock;
      }
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V factor = V::broadcast(q_row[q * d_ + d]);
        sums[q][0] = fma(factor, low, sums[q][0]);
        sums[q][1] = fma(factor, high, sums[q][1]);
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      sums[q][0].store(scores_ + (i + q) * kBlock);
      sums[q][1].store(scores_ + (i + q) * kBlock + 16);
    });
  }

  /// The same for queries first .. last - 1 and keys in q8_0. Tiles fetch what lies at their own
  /// distance behind the block: one of the next ones, as a rule.
  void score_panels(const q8_0* keys, int first, int last) noexcept {
    constexpr TensorType kType = TensorType::kQ8_0;
    constexpr PanelLayout kLayout = panel_layout(kType);
    const int n_blocks = task_.d_head / kLayout.block_k;
    const PackedPanels panels{kType,
                              kBlock,
                              task_.d_head,
                              kBlock / kPanelRows,
                              n_blocks,
                              idx(n_blocks) * kLayout.bytes,
                              reinterpret_cast<const std::byte*>(keys)};
    while (first < last) {
      // A tile stays within a group of rows.
      const int most = kTileRows - first % kTileRows;
      const int n_rows = last - first < most ? last - first : most;
      unroll<kTileRows>([&](auto i) __attribute__((always_inline)) {
        if (n_rows != i + 1) return;
        Tile<Arch, kType, i + 1>::run(panels, queries_, first, 0, panels.n_panels, scores_, kBlock,
                                      {});
      });
      first += n_rows;
    }
  }

  /// Scores of one query become weights exp(score - greatest so far), 0 before position `from` and
  /// from position n on.
  void exponentiate(int i, int from, int n) noexcept {
    float* s = scores_ + i * kBlock;
    for (int p = 0; p < from; ++p) s[p] = -__builtin_inff();
    for (int p = n; p < kBlock; ++p) s[p] = -__builtin_inff();
    const V low = V::load(s);
    const V high = V::load(s + 16);
    float* lanes = lanes_ + i * 16;
    V sums = V::load(lanes);
    const float most = max(low, high).greatest();
    if (most > greatest_[i]) {
      const V shrink = exp<Arch>(V::broadcast(greatest_[i] - most));  // 0 for the first block
      sums = sums * shrink;
      float* sum_v = sum_v_ + i * d_;
      for (int d = 0; d < d_; d += 16) (V::load(sum_v + d) * shrink).store(sum_v + d);
      greatest_[i] = most;
    }
    const V shift = V::broadcast(greatest_[i]);
    const V p_low = exp<Arch>(low - shift);
    const V p_high = exp<Arch>(high - shift);
    p_low.store(s);
    p_high.store(s + 16);
    (sums + p_low + p_high).store(lanes);
  }

  /// sum_v += weights * values for Q queries, position by position, from .. n - 1.
  template <int Q, typename E>
  void add_values(const E* values, int i, int from, int n, const T* next) noexcept {
    int d = 0;
    if constexpr (kQuantized) {
      values += from * row_elements<T>(task_.d_head);
      for (; d < d_; d += q8_0::kValues, ++values)
        next = add_columns<Q>(values, i, from, n, d, next);
    } else {
      values += from * d_;
      for (; d + 32 <= d_; d += 32) next = add_columns<Q, 2>(values + d, i, from, n, d, next);
      if (d < d_) add_columns<Q, 1>(values + d, i, from, n, d, next);
    }
  }

  /// The 32 columns of one element of each row. Weights take the scale, so that codes need none.
  /// @param values  of position `from`
  template <int Q>
  [[gnu::always_inline]] const T* add_columns(const q8_0* values, int i, int from, int n, int d,
                                              const T* next) noexcept {
    const int row = row_elements<q8_0>(task_.d_head);
    std::uint16_t scales[kBlock] = {};
    for (int p = from; p < n; ++p) scales[p] = values[(p - from) * row].scale.bits;
    const V scale[2] = {V::load_half(scales), V::load_half(scales + 16)};
    V sums[Q][2];
    float weights[Q][kBlock];
    float* sum_v = sum_v_ + i * d_ + d;
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        const float* unscaled = scores_ + (i + q) * kBlock + 16 * half;
        (V::load(unscaled) * scale[half]).store(weights[q] + 16 * half);
        sums[q][half] = V::load(sum_v + q * d_ + 16 * half);
      });
    });
    for (int p = from; p < n; ++p, values += row) {
      if (next != nullptr) {
        fetch(next);
        ++next;  // n is 32 then: with all elements of a row, the whole block
      }
      const V low = V::load_bytes(values->codes);
      const V high = V::load_bytes(values->codes + 16);
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V weight = V::broadcast(weights[q][p]);
        sums[q][0] = fma(weight, low, sums[q][0]);
        sums[q][1] = fma(weight, high, sums[q][1]);
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      sums[q][0].store(sum_v + q * d_);
      sums[q][1].store(sum_v + q * d_ + 16);
    });
    return next;
  }

  /// @param values  of position `from`
  /// @return what of the next block is to be fetched then: lines follow each other as they lie
  template <int Q, int C, typename E>
  [[gnu::always_inline]] const T* add_columns(const E* values, int i, int from, int n, int d,
                                              const T* next) noexcept {
    V sums[Q][C];
    float* sum_v = sum_v_ + i * d_ + d;
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<C>([&](auto c) __attribute__((always_inline)) {
        sums[q][c] = V::load(sum_v + q * d_ + c * 16);
      });
    });
    const float* weights = scores_ + i * kBlock;
    for (int p = from; p < n; ++p, values += d_) {
      if (next != nullptr) {
        fetch(next);
        next += 32;
      }
      V column[C];
      unroll<C>([&](auto c)
                    __attribute__((always_inline)) { column[c] = Block::load16(values + c * 16); });
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V weight = V::broadcast(weights[q * kBlock + p]);
        unroll<C>([&](auto c) __attribute__((always_inline)) {
          sums[q][c] = fma(weight, column[c], sums[q][c]);
        });
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      unroll<C>([&](auto c)
                    __attribute__((always_inline)) { sums[q][c].store(sum_v + q * d_ + c * 16); });
    });
    return next;
  }

  void finish() noexcept {
    for (int i = 0; i < count_; ++i) {
      const float factor = 1.0f / V::load(lanes_ + i * 16).sum();
      float* out = task_.out + place_of(i);
      for (int d = 0; d < task_.d_head; ++d) out[d] = sum_v_[i * d_ + d] * factor;
    }
  }

  const AttendTask<T> task_;
  const int d_;    // d_head, padded to whole vectors
  int first_ = 0;  // queries of the tile: first_ .. first_ + count_ - 1
  int count_ = 0;
  int next_ = -1;          // first position of the whole block to be fetched, or none
  float* q_;               // [kTile, d_], times scale
  float* sum_v_;           // [kTile, d_]
  float* lanes_;           // [kTile, 16] sums of weights
  float* greatest_;        // [kTile] greatest score so far
  float* scores_;          // [kTile, kBlock]
  Activations queries_{};  // [kTile, d_head], for keys in q8_0
  Block block_{};
};

/// Floats of workspace for one worker.
constexpr std::size_t attend_workspace(int d_head) noexcept {
  using A = Attention<Portable, float>;
  const auto d = idx(A::padded(d_head));
  return (2 * (A::kTile + A::kBlock) + A::kQueryFloats) * d + A::kTile * (16 + 16 + A::kBlock);
}

/// @cost 2 * d_head multiply-adds for each query and position it sees; no allocation
template <class Arch, typename T>
void attend(const AttendTask<T>& task) noexcept {
  Attention<Arch, T>(task).run();
}

}  // namespace foredraft::inline v0::cpu
