#pragma once

#include <concepts>
#include <cstddef>
#include <vector>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Memory for the keys and values of one sequence, in every layer that has some: what a cache keeps
/// its rows in. Which row belongs to which position or node is the cache's business; how a row lies
/// in memory, and in which memory, is that of the backend whose operators read it.
///
/// A type `R` satisfies RowStorage when, besides the syntax below:
///  1. R(shape, n_rows, at_once) has n_rows rows, none of them committed, and throws kOutOfMemory,
///     or kInvalidOption where it cannot store such rows; `at_once`: all memory will be used soon.
///     R() has no rows;
///  2. rows 0 .. size() - 1 are committed. commit(n) adds the next n, whose place is final then;
///     truncate(n) leaves n of them, at most as many as there are. What committed rows hold never
///     changes, though how they lie in memory may;
///  3. move(from, to) copies a row that is not committed onto another one, in all layers, at the
///     latest in the commit that has to follow. Moves are made in their order;
///  4. layer(i) is what operators are given of a layer, good until the next call of the others.
///     Operators write rows that are not committed and read all of them;
///  5. copy_to(begin, end, k, v) appends rows begin .. end - 1 of the committed ones to vectors that
///     are empty: [layers][n_kv_heads][end - begin] rows; append(n, k, v) makes n rows that were
///     copied so the next committed ones. key_elements(n) and value_elements(n) are how many elements
///     n rows have, different ones where keys and values are stored in different formats. A device's
///     storage may copy elsewhere than into vectors of elements as the kernels store them; whoever
///     holds the copies does not look into them. A storage in one of several formats has formats():
///     rows in another one may have as many elements;
///  6. commit, truncate and move are noexcept and allocate nothing.
/// @see cpu::Rows, RingStorage
template <typename R>
concept RowStorage = std::movable<R> && std::default_initializable<R> &&
                     std::constructible_from<R, const CacheShape&, int, bool> &&
                     requires(R rows, const R view, int n, std::vector<typename R::value_type>& k,
                              std::vector<typename R::value_type>& v, const CacheShape& shape) {
                       typename R::Layer;
                       { view.size() } noexcept -> std::same_as<int>;
                       { rows.commit(n) } noexcept;
                       { rows.truncate(n) } noexcept;
                       { rows.move(n, n) } noexcept;
                       { rows.layer(n) } noexcept -> std::same_as<typename R::Layer>;
                       { view.key_elements(n) } -> std::same_as<std::size_t>;
                       { view.value_elements(n) } -> std::same_as<std::size_t>;
                       view.copy_to(n, n, k, v);
                       { rows.append(n, k, v) } noexcept;
                       { R::bytes(shape, n) } -> std::same_as<double>;
                     };

/// A storage in one of several formats, which it is told when it is made.
template <typename R>
concept StoresInFormats = requires(const R view) {
  { view.formats() } -> std::convertible_to<RowFormats>;
};

/// A storage whose layers with a window can be rings: they keep what may still be read, and the
/// rows behind it lie where older ones lay. Whoever names a row need not know of it.
///
/// A type `R` satisfies RingStorage when, besides the syntax below:
///  1. R(shape, n_rows, at_once, max_staged) has rings for passes of up to max_staged rows, and
///     bytes(shape, n_rows, max_staged) is the memory it takes; without max_staged there are none;
///  2. stage(n) says that the next n rows behind the committed ones may be written from now on;
///  3. holds(n): rows behind the first n, of at most size(), can still see all they may read. It
///     is true of 0 and of size(), and truncate(n) is for such n alone;
///  4. keeps_all() says that no layer is a ring. Else all rows are copied at once, and copies are
///     appended to others only as long as no ring lacks a row; copies, and the counts of their
///     elements, have of each ring the newest rows: one less than its window, which is what the next
///     row sees beside itself; and the first shape.sinks rows, which it sees as well and which are
///     never written over.
/// @see RowRing, cpu::Rows, cuda::Rows, RotatingCache
template <typename R>
concept RingStorage =
    RowStorage<R> && std::constructible_from<R, const CacheShape&, int, bool, int> &&
    requires(R rows, const R view, int n, const CacheShape& shape) {
      { rows.stage(n) } noexcept;
      { view.holds(n) } noexcept -> std::same_as<bool>;
      { view.keeps_all() } noexcept -> std::same_as<bool>;
      { R::bytes(shape, n, n) } -> std::same_as<double>;
    };

}  // namespace foredraft::inline v0
