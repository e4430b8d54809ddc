#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Memory for what the recurrent layers of one sequence keep: a row for what each token puts in, and
/// states. Which row belongs to which token is the cache's business (StateRows); what lies in it is
/// that of the operators.
///
/// A type `V` satisfies StateStorage when, besides the syntax below:
///  1. V(shape, n_rows) has n_rows rows in every layer of shape.states and throws kOutOfMemory; V()
///     has none, and bytes(shape, n_rows) is the memory it takes;
///  2. `replays` says which states there are. Where it is false, each row has the state behind its
///     token. Where it is true there is one state, that of committed tokens; operators compute
///     those of staged tokens from what the rows hold, and apply to the state what it lacks;
///  3. layer(i) is what operators are given of a layer, good as long as the storage. They write the
///     rows and states of staged tokens, and apply StateRows::unapplied;
///  4. copy_to(rows, with_state, values) appends what these rows hold in all layers and, asked for
///     it, the state, that of the last row; restore() takes back what elements() counts. How a state lies
///     is its backend's business, so a snapshot comes back on that backend alone;
///  5. it may have applied(), which is told when the state of layer(i) has taken in what it lacked.
///     Until then operators leave the state as it was, where a pass can fail after it has begun.
/// @see Slots, Replay
template <typename V>
concept StateStorage =
    std::movable<V> && std::default_initializable<V> &&
    std::constructible_from<V, const CacheShape&, int> &&
    requires(V states, const V view, int n, bool with_state, std::span<const std::int32_t> rows,
             std::vector<float>& to, std::span<const float> from, const CacheShape& shape) {
      typename V::Layer;
      { V::replays } -> std::convertible_to<bool>;
      { V::bytes(shape, n) } -> std::same_as<double>;
      { states.layer(n) } noexcept -> std::same_as<typename V::Layer>;
      { view.elements(n, with_state) } noexcept -> std::same_as<std::size_t>;
      view.copy_to(rows, with_state, to);
      { states.restore(rows, with_state, from) } noexcept;
    };

/// A storage that is told when its state has taken in what it lacked.
template <typename V>
concept NotesApplied = requires(V states) { states.applied(); };

}  // namespace foredraft::inline v0
