#pragma once

#include <foredraft/backend/row_storage.hpp>
#include <foredraft/cache/row_cache.hpp>
#include <foredraft/cache/storage.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// For models with layers that see a window: those keep keys and values of the window alone, in a
/// ring, and the others of every position, as in a LinearCache. What is computed is the same to the
/// bit.
///
/// Staged rows never lie where a committed row lies that may still be read: a ring has room for the
/// window and max_staged rows. So a rejected draft costs nothing here either, and a tree is
/// committed as in other caches. What a ring has written over is gone: truncate(n) goes back to n
/// where that needs nothing of it, about as far as a full pass is longer than those since, and to 0
/// otherwise. So it does behind restore(), since a snapshot has the window alone.
///
/// With sinks, rows of layers with a window also see the first positions of the text, which these
/// layers keep for ever. That is another computation: its text is that of a cache that keeps all rows
/// with as many sinks in its shape (CacheShape::sinks), not that of one without. Positions stay what
/// they are; the source counts them within the cache.
/// @tparam S  as in LinearCache; a backend's own storage has to be a RingStorage
/// @cost memory of a layer with a window: that of window + max_staged rows and that of the
/// sinks, each rounded up to the rows that the storage keeps together; else as in LinearCache
/// @source Xiao et al. 2023, arXiv:2309.17453 (sinks)
template <typename S>
  requires RingStorage<RowsIn<S>>
class RotatingCache : public RowCache<RowsIn<S>> {
 public:
  /// @param n_ctx as in LinearCache: positions that layers without a window can hold
  /// @param max_staged most nodes of a pass, the block size of prefill included: each ring has room
  /// for as many
  /// @param sinks first positions that rows of layers with a window see besides
  /// @errors kInvalidOption, kOutOfMemory, and what the storage refuses
  explicit RotatingCache(const CacheShape& shape, Dim n_ctx = 0, Dim max_staged = 512,
                         Dim sinks = 0)
      : RowCache<RowsIn<S>>(with_sinks(shape, sinks), n_ctx, max_staged, true) {}

  /// Bytes that a cache with these dimensions takes when it is full.
  static double full_bytes(const CacheShape& shape, int n_ctx, int max_staged = 512,
                           Dim sinks = 0) {
    return RowsIn<S>::bytes(with_sinks(shape, sinks), n_ctx + max_staged, max_staged);
  }

 private:
  static CacheShape with_sinks(CacheShape shape, Dim sinks) {
    if (sinks > 0) shape.sinks = sinks;
    return shape;
  }
};

}  // namespace foredraft::inline v0
