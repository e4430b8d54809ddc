#pragma once

#include <foredraft/backend/row_storage.hpp>
#include <foredraft/cache/row_cache.hpp>
#include <foredraft/cache/storage.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Keys and values of every position, in order, in every layer: the cache of full attention. Layers
/// with a window read less of it.
/// @tparam S  how rows are stored: float, f16 or q8_0 (32 values in 34 bytes, heads of a multiple of
/// 64 dimensions only) in the host's memory, or a backend's RowStorage: cpu::Rows<K, V> for keys and
/// values in different formats, cpu::AnyRows for those that the shape names when the program runs
/// @cost stage O(nodes), for a tree O(nodes * depth); commit of a chain as RowStorage::commit, of a
/// tree O(rows moved * layers) more
template <typename S>
  requires RowStorage<RowsIn<S>>
class LinearCache : public RowCache<RowsIn<S>> {
 public:
  /// @param n_ctx positions it can hold, in huge pages, of which the first of each head take their
  /// memory now; 0: as many as the model was trained for, and only those that are used take memory
  /// @param max_staged most nodes of a pass, the block size of prefill included
  /// @errors kInvalidOption, kOutOfMemory, and what the storage refuses
  explicit LinearCache(const CacheShape& shape, Dim n_ctx = 0, Dim max_staged = 512)
      : RowCache<RowsIn<S>>(shape, n_ctx, max_staged, false) {}

  /// Bytes that a cache with these dimensions takes when it is full.
  static double full_bytes(const CacheShape& shape, int n_ctx) noexcept {
    return RowsIn<S>::bytes(shape, n_ctx);
  }
};

}  // namespace foredraft::inline v0
