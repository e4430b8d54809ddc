#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/any_ref.hpp>
#include <foredraft/core/dimension.hpp>
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

  // Of mixtures of experts; 0 where there are none.
  Dim n_experts = 0;
  Dim n_used = 0;    ///< experts that a row takes
  Dim d_expert = 0;  ///< d_ff of one; n_experts * d_expert and n_experts * d_model are dimensions
  Dim d_shared = 0;  ///< of one that all rows take; at most d_ff

  // Of recurrent layers; 0 where there are none.
  Dim d_in = 0;     ///< what one makes of a row to begin with
  Dim d_mixed = 0;  ///< what it hands to its last matrix product, at most d_in
  Dim d_state = 0;  ///< one of its states

  Dim d_inputs = 0;  ///< what all layers are given besides x: n_layers * d_input; 0: nothing

  /// Columns of the widest activations.
  Dim widest() const noexcept {
    const int of_experts = int{n_used} * std::max(int{d_expert}, int{d_model});
    return std::max({int{d_model}, int{d_ff}, int{d_q}, int{d_kv}, int{d_in}, int{n_experts},
                     of_experts, int{d_inputs}});
  }
};

/// Greatest d_head: operators count the elements of a block of keys in an `int`.
inline constexpr int kMostHead = 1 << 16;

namespace detail {
/// A body of run() that does nothing, for the concept to name.
template <typename Worker>
struct EmptyBody {
  void operator()(Worker&) const noexcept {}
};
}  // namespace detail

/// A worker with the operators that every layer of every model has.
template <typename W>
concept Operators =
    requires(W& worker, const EmbedArgs<W>& embed, const FeedForwardArgs<W>& feed_forward,
             const TapArgs<W>& tap, const HeadArgs<W>& head) {
      { worker.index() } noexcept -> std::convertible_to<int>;
      { worker.count() } noexcept -> std::convertible_to<int>;
      { worker.barrier() } noexcept;
      { worker.embed(embed) } noexcept;
      { worker.feed_forward(feed_forward) } noexcept;
      { worker.tap(tap) } noexcept;
      { worker.head(head) } noexcept;
    };

/// A worker with attention over keys and values that are stored as R stores them.
template <typename W, typename R>
concept AttendsOver =
    requires(W& worker, const QkvArgs<W, R>& qkv, const AttendArgs<W, R>& attend) {
      { worker.qkv(qkv) } noexcept;
      { worker.attend(attend) } noexcept;
    };

/// A worker that can also mix experts. A model with such layers is refused over another one.
template <typename W>
concept MixesExperts = requires(W& worker, const MixtureArgs<W>& mixture) {
  { worker.mixture(mixture) } noexcept;
};

/// A worker that knows layers which lack matrices: keys or values that are not their own, feed-forward
/// parts without `up`; and with them norms on values and factors on what a layer leaves. A model with
/// such layers is refused over another one.
template <typename W>
concept RunsPartialLayers = requires { requires W::partial_layers; };

/// A worker that can also embed tokens for each layer, with pointers that can be moved on to a layer's own
/// part. A model that does is refused over another one.
template <typename W>
concept EmbedsLayers = RunsPartialLayers<W> && requires(W& worker, const EmbedLayersArgs<W>& embed,
                                                        Out<W> inputs, std::ptrdiff_t n) {
  { worker.embed_layers(embed) } noexcept;
  { inputs + n } -> std::convertible_to<Out<W>>;
};

/// A worker whose head finds the best tokens of a row, because its logits lie far from who would look for
/// them there.
template <typename W>
concept FindsTop = requires { requires W::finds_top; };

/// A worker with recurrent layers over states that are stored as V stores them.
template <typename W, typename V>
concept RecursOver = requires(W& worker, const ShortConvArgs<W, V>& short_conv,
                              const SelectiveScanArgs<W, V>& selective_scan,
                              const GatedDeltaNetArgs<W, V>& gated_delta_net) {
  { worker.short_conv(short_conv) } noexcept;
  { worker.selective_scan(selective_scan) } noexcept;
  { worker.gated_delta_net(gated_delta_net) } noexcept;
};

/// Where the arithmetic of a model takes place: packed weights and the fused operators of
/// backend/ops.hpp.
///
/// A type `B` satisfies Backend when, besides the syntax below:
///  1. pack(view) makes a matrix that holds exactly the file's values and no longer needs the file;
///     vector(view) makes a vector. Both check the view and throw Error. A default-constructed
///     vector is empty(), and a default-constructed matrix stands where a layer has none;
///  2. Matrix, Vector and Buffer own memory that operators read by Worker::Pointer, which is a T*
///     or another type that can be null; the host need not be able to read it. Buffer<T> has
///     reserve(n), room for n elements, and write(values), room that holds them; both may throw,
///     and return where the room is, good until the next call;
///  3. run(shape, body) executes body(worker) once on each worker and returns when all are done and
///     what they hand out has arrived. It reserves memory by `shape` and may throw, before the
///     first body begins; the body does not throw. Calls from several threads follow each other;
///  4. inside, every worker calls the same operators in the same order with equal arguments, no
///     larger than `shape`. The values of its widest activations, n_rows * widest(), fit an `int`;
///  5. when an operator returns on a worker, its results may be read on that worker, and its inputs
///     may be overwritten by the next operator. Before the next operator a worker may write what
///     that one does not touch;
///  6. what an operator computes for a row depends on that row, on the weights and on the keys and
///     values it may see, to the bit: not on other rows, their order or number, and not on the
///     number of workers;
///  7. a NaN stays within its own row, and head() reports it, or +inf, as argmax -1. Ties of the
///     argmax go to the lowest id;
///  8. matrices are read-only after pack() and may be shared by any number of passes. They may
///     outlive the backend;
///  9. a model asks for attention (AttendsOver) over the storage of the cache that it is given, and
///     for no other. Not required: copying or moving; one backend serves all models of a program
///     and outlives them.
/// @see NamesRows, NamesStates, HasPlace, MappableMatrix: what it may say besides; Cpu, Reference;
///   docs/design/layers.md
template <typename B>
concept Backend =
    Operators<typename B::Worker> && std::movable<typename B::Matrix> &&
    std::default_initializable<typename B::Matrix> &&
    std::default_initializable<typename B::Vector> && std::movable<typename B::Vector> &&
    std::default_initializable<typename B::template Buffer<float>> &&
    requires(B backend, const TensorView& weights, const PassShape& shape,
             const detail::EmptyBody<typename B::Worker>& body, const typename B::Vector vector,
             typename B::template Buffer<float> buffer, std::span<const float> values) {
      { backend.pack(weights) } -> std::same_as<typename B::Matrix>;
      { backend.vector(weights) } -> std::same_as<typename B::Vector>;
      { vector.data() } -> std::convertible_to<In<typename B::Worker>>;
      { vector.empty() } -> std::convertible_to<bool>;
      { buffer.reserve(values.size()) } -> std::convertible_to<Out<typename B::Worker>>;
      { buffer.write(values) } -> std::convertible_to<In<typename B::Worker>>;
      backend.run(shape, body);
    };

/// A backend that names how a cache stores rows in format S for it: Model::make_cache() makes such caches.
/// Of other backends a cache's storage is named by who makes it, or is the processor's.
template <typename B, typename S>
concept NamesRows = RingStorage<typename B::template Rows<S>> &&
                    AttendsOver<typename B::Worker, typename B::template Rows<S>>;

/// Likewise of what recurrent layers keep.
template <typename B>
concept NamesStates =
    StateStorage<typename B::States> && RecursOver<typename B::Worker, typename B::States>;

/// A matrix that can read what was packed before where it lies, such as in a mapped file: a model is
/// packed once, and later runs take it from there.
///  1. packed() is the bytes that make up a matrix, bytes_of(type, n_out, n_in) how many there are.
///     The latter throws for what pack() refuses;
///  2. view() is a matrix over such bytes, which `keeper` holds. It throws kShapeMismatch for another
///     number of them; the beginning of a page suits every matrix;
///  3. layout() is a checksum of what the bytes mean. It changes when that does.
template <typename M>
concept MappableMatrix =
    requires(const M matrix, TensorType type, std::size_t n, std::span<const std::byte> packed,
             std::shared_ptr<const void> keeper) {
      { matrix.packed() } noexcept -> std::same_as<std::span<const std::byte>>;
      { M::bytes_of(type, n, n) } -> std::same_as<std::size_t>;
      { M::view(type, n, n, packed, keeper) } -> std::same_as<M>;
      { M::layout() } -> std::same_as<std::uint64_t>;
    };

/// A backend whose memory is in one of several places, such as the streams of a device:
///  1. place() is what CacheShape::place of its models refers to, so that storages are made there;
///  2. while scope() lives, what its thread makes or fills is there. Who writes a Buffer outside of
///     run() holds one.
template <typename B>
concept HasPlace = requires(const B backend) {
  { backend.place() } -> std::same_as<AnyRef>;
  backend.scope();
};

/// The scope of a backend; of one without a place there is nothing to hold.
template <typename B>
[[nodiscard]] auto scope_of(const B& backend) {
  if constexpr (HasPlace<B>) {
    return backend.scope();
  } else {
    return std::false_type{};
  }
}

}  // namespace foredraft::inline v0
