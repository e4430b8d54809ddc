#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <foredraft/backend/cpu/activations.hpp>
#include <foredraft/backend/cpu/element_loads.hpp>
#include <foredraft/backend/cpu/key_blocks.hpp>
#include <foredraft/backend/cpu/matmul.hpp>
#include <foredraft/backend/cpu/query_tile.hpp>
#include <foredraft/backend/cpu/vec16.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0::cpu {

/// The part of attention that knows how keys are stored: it takes up a block of 32 positions, and
/// then has the scores of any queries with them. A score is a chain of fma along d_head; keys in
/// q8_0 are two panels of a matrix in Q8_0, and scores the matrix product with quantized queries,
/// integers within 32 dimensions.
template <class Arch>
class AttentionKeys {
 public:
  using V = Vec16<Arch>;
  static constexpr int kBlock = QueryTile::kPositions;

  /// Floats of workspace, for each dimension of a head: a block as floats, or as it is stored.
  static constexpr int kFloats = kBlock;

  /// @param k  of the head, see AnyRows::Layer
  /// @shape workspace [kFloats, d]
  AttentionKeys(RowFormat format, const std::byte* k, int d_head, int d, float* workspace) noexcept
      : format_(format),
        d_head_(d_head),
        padded_(d != d_head),
        row_bytes_(row_bytes(format, d_head)),
        k_(k),
        workspace_(workspace) {}

  bool quantized() const noexcept { return format_ == RowFormat::kQ8_0; }

  /// Take up a block as it is stored.
  /// @param place  of its first row
  void take(std::int32_t place, int n_queries) noexcept {
    at_hand_ = k_ + idx(place) * row_bytes_;
    if (used_as_stored<Arch>(format_, padded_, n_queries)) return;
    with_element(format_, [&]<typename K>(Element<K>) {
      if constexpr (!std::is_same_v<K, q8_0>) {
        load_floats<Arch>(reinterpret_cast<const K*>(at_hand_), d_head_ * kBlock, workspace_);
      }
    });
    at_hand_ = nullptr;
  }

  /// Take up n positions that lie anywhere, in the order in which they are named. Scores with the
  /// others mean nothing.
  /// @shape rows [n]
  void gather(const std::int32_t* rows, int n) noexcept {
    auto* const block = reinterpret_cast<std::byte*>(workspace_);
    with_element(format_, [&]<typename K>(Element<K>) {
      // As a rule most rows are those of one block, in their order.
      const std::int32_t first = key_block_of(rows[0]);
      const std::byte* const most = k_ + idx(first) * row_bytes_;
      __builtin_memcpy(block, most, kBlock * row_bytes_);
      for (int i = 0; i < n; ++i) {
        if (rows[i] == first + i) continue;
        copy_key<K>(k_ + idx(key_block_of(rows[i])) * row_bytes_, rows[i] % kBlock, d_head_, block,
                    i);
      }
    });
    at_hand_ = block;
  }

  /// Scores of queries first .. last - 1 at the block's 32 positions, those that are not there
  /// included.
  /// @param next  place of the block to be fetched meanwhile; -1: none
  void score(const QueryTile& tile, int first, int last, std::int32_t next) const noexcept {
    with_element(format_, [&]<typename K>(Element<K>) {
      if constexpr (std::is_same_v<K, q8_0>) {
        score_panels(tile, first, last);
      } else {
        const auto* const ahead =
            next < 0 ? nullptr : reinterpret_cast<const K*>(k_ + idx(next) * row_bytes_);
        if (at_hand_ != nullptr) {
          score_groups(reinterpret_cast<const K*>(at_hand_), tile, first, last, ahead);
        } else {
          score_groups<float>(workspace_, tile, first, last, ahead);
        }
      }
    });
  }

 private:
  template <typename E, typename K>
  static void score_groups(const E* keys, const QueryTile& tile, int first, int last,
                           const K* next) noexcept {
    constexpr int kMost = kQueriesAtOnce<Arch>;
    for (int i = first; i < last; i += kMost) {
      with_query_count<Arch>(last - i < kMost ? last - i : kMost,
                             [&](auto q) __attribute__((always_inline)) {
                               score_group<q>(keys, tile, i, i == first ? next : nullptr);
                             });
    }
  }

  /// Scores of Q queries.
  /// @shape keys [d_head, kBlock]
  template <int Q, typename E, typename K>
  static void score_group(const E* keys, const QueryTile& tile, int i, const K* next) noexcept {
    V sums[Q][2];
    unroll<Q>([&](auto q) __attribute__((always_inline)) { sums[q][0] = sums[q][1] = V::zero(); });
    const float* q_row = tile.q + i * tile.d;
    for (int d = 0; d < tile.d_head; ++d, keys += kBlock) {
      const V low = ElementLoads<Arch>::load16(keys);
      const V high = ElementLoads<Arch>::load16(keys + 16);
      if (next != nullptr) {
        fetch_line(next);
        if constexpr (sizeof(K) == 4) fetch_line(next + 16);
        next += kBlock;
      }
      unroll<Q>([&](auto q) __attribute__((always_inline)) {
        const V factor = V::broadcast(q_row[q * tile.d + d]);
        sums[q][0] = fma(factor, low, sums[q][0]);
        sums[q][1] = fma(factor, high, sums[q][1]);
      });
    }
    unroll<Q>([&](auto q) __attribute__((always_inline)) {
      sums[q][0].store(tile.scores + (i + q) * kBlock);
      sums[q][1].store(tile.scores + (i + q) * kBlock + 16);
    });
  }

  /// The same for keys in q8_0. Tiles fetch what lies at their own distance behind the block: one of
  /// the next ones, as a rule.
  void score_panels(const QueryTile& tile, int first, int last) const noexcept {
    constexpr TensorType kType = TensorType::kQ8_0;
    constexpr PanelLayout kLayout = panel_layout(kType);
    const int n_blocks = d_head_ / kLayout.block_k;
    const PackedPanels panels{
        kType,   kBlock, d_head_, kBlock / kPanelRows, n_blocks, idx(n_blocks) * kLayout.bytes,
        at_hand_};
    while (first < last) {
      // A tile stays within a group of rows.
      const int most = kTileRows - first % kTileRows;
      const int n_rows = last - first < most ? last - first : most;
      unroll<kTileRows>([&](auto i) __attribute__((always_inline)) {
        if (n_rows != i + 1) return;
        Tile<Arch, kType, i + 1>::run(panels, tile.codes, first, 0, panels.n_panels, tile.scores,
                                      kBlock, {});
      });
      first += n_rows;
    }
  }

  const RowFormat format_;
  const int d_head_;
  const bool padded_;
  const std::size_t row_bytes_;
  const std::byte* const k_;
  float* const workspace_;
  const std::byte* at_hand_ = nullptr;  // the block as it is stored; null: workspace_ has floats
};

}  // namespace foredraft::inline v0::cpu
