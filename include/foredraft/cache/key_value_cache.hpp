#pragma once

#include <concepts>

#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// A cache that a model with attention can run on.
///
/// A type `C` satisfies KeyValueCache when, besides the syntax below:
///  1. token(node) and position(node) are those of a staged node; a position is the number of
///     committed positions and of the staged nodes before it on its path;
///  2. rows(first, count, first_row) describes the staged nodes first .. first + count - 1 as rows of
///     a pass: where they lie in the storage, and where what each of them sees lies;
///  3. layer(i) is layer i of the storage that these rows lie in;
///  4. what rows() and layer() return is good until the cache is changed. Until then operators write
///     keys and values of the described nodes, and nothing else.
/// @see LinearCache, RotatingCache
template <typename C>
concept KeyValueCache = Cache<C> && RowStorage<typename C::Rows> &&
                        requires(C cache, const C view, NodeIndex node, int n) {
                          { view.token(node) } noexcept -> std::same_as<TokenId>;
                          { view.position(node) } noexcept -> std::same_as<Position>;
                          { view.rows(node, n, n) } noexcept -> std::same_as<SequenceRows>;
                          { cache.layer(n) } noexcept -> std::same_as<typename C::Rows::Layer>;
                        };

}  // namespace foredraft::inline v0
