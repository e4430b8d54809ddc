#pragma once

#include <algorithm>
#include <concepts>
#include <vector>

#include <foredraft/backend/ops.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// The greatest sizes that the operators of one pass will meet. A backend reserves its memory by
/// them before the pass.
struct PassShape {
  Dim n_rows = 0;
  Dim d_model = 0;
  Dim d_ff = 0;
  Dim d_q = 0;     ///< all query heads: n_heads * d_head
  Dim d_kv = 0;    ///< all heads of keys, or of values: n_kv_heads * d_head
  Dim d_head = 0;  ///< at most kMostHead

  /// Columns of the widest activations.
  Dim widest() const noexcept { return std::max({int{d_model}, int{d_ff}, int{d_q}, int{d_kv}}); }
};

/// Greatest d_head: operators count the elements of a block of keys in an `int`.
inline constexpr int kMostHead = 1 << 16;

namespace detail {
/// A body of run() that does nothing, for the concept to name.
template <typename Lane>
struct EmptyBody {
  void operator()(Lane&) const noexcept {}
};

/// The operators that depend on the storage type of the cache.
template <typename Lane, typename Matrix, typename T>
concept AttendsOver =
    requires(Lane& lane, const QkvArgs<Matrix, T>& qkv, const AttendArgs<Matrix, T>& attend) {
      { lane.qkv(qkv) } noexcept;
      { lane.attend(attend) } noexcept;
    };
}  // namespace detail

/// Where the arithmetic of a model takes place: packed weights and the fused operators of
/// backend/ops.hpp.
///
/// A type `B` satisfies Backend when, besides the syntax below:
///  1. pack(view) makes a matrix that holds exactly the file's values and no longer needs the file;
///     vector(view) gives a vector as floats. Both check the view and throw Error;
///  2. run(shape, body) executes body(lane) once on each lane and returns when all are done. It
///     reserves memory by `shape` and may throw, before the first body begins; the body does not
///     throw. Calls from several threads follow each other;
///  3. inside, every lane calls the same operators in the same order with equal arguments, no
///     larger than `shape`. The values of its widest activations, n_rows * widest(), fit an `int`;
///  4. when an operator returns on a lane, its results may be read on that lane, and its inputs may
///     be overwritten by the next operator. Before the next operator a lane may write what that one
///     does not touch;
///  5. what an operator computes for a row depends on that row, on the weights and on the keys and
///     values it may see, to the bit: not on other rows, their order or number, and not on the
///     number of lanes;
///  6. a NaN stays within its own row, and head() reports it, or +inf, as argmax -1. Ties of the
///     argmax go to the lowest id;
///  7. matrices are read-only after pack() and may be shared by any number of passes. They may
///     outlive the backend.
/// Not required: copying or moving; one backend serves all models of a program and outlives them.
/// @see Cpu, Reference; docs/design/layers.md
template <typename B>
concept Backend =
    requires(B backend, const TensorView& weights, const PassShape& shape,
             const detail::EmptyBody<typename B::Lane>& body) {
      { backend.pack(weights) } -> std::same_as<typename B::Matrix>;
      { backend.vector(weights) } -> std::same_as<std::vector<float>>;
      backend.run(shape, body);
    } &&
    std::movable<typename B::Matrix> &&
    requires(typename B::Lane& lane, const EmbedArgs<typename B::Matrix>& embed,
             const FeedForwardArgs<typename B::Matrix>& feed_forward,
             const HeadArgs<typename B::Matrix>& head) {
      { lane.index() } noexcept -> std::convertible_to<int>;
      { lane.count() } noexcept -> std::convertible_to<int>;
      { lane.barrier() } noexcept;
      { lane.embed(embed) } noexcept;
      { lane.feed_forward(feed_forward) } noexcept;
      { lane.head(head) } noexcept;
    } &&
    detail::AttendsOver<typename B::Lane, typename B::Matrix, float> &&
    detail::AttendsOver<typename B::Lane, typename B::Matrix, f16> &&
    detail::AttendsOver<typename B::Lane, typename B::Matrix, q8_0>;

}  // namespace foredraft::inline v0
