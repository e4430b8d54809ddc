#pragma once

#include <concepts>

#include <foredraft/backend/recurrent_ops.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/cache/key_value_cache.hpp>

namespace foredraft::inline v0 {

/// A cache that a model with recurrent layers can run on.
///
/// A type `C` satisfies StateCache when, besides the syntax below:
///  1. states() says where what staged and committed tokens put in lies, and state_layer(i) is
///     recurrent layer i of that storage; both are good until the cache is changed;
///  2. whoever has run a pass over any of its nodes calls applied(): the states have now taken in
///     all committed tokens. Until then they have not, and a pass that failed before it began has
///     changed nothing.
/// @see HybridCache
template <typename C>
concept StateCache =
    KeyValueCache<C> && StateStorage<typename C::States> && requires(C cache, const C view, int n) {
      { view.states() } noexcept -> std::same_as<StateRows>;
      { cache.state_layer(n) } noexcept -> std::same_as<typename C::States::Layer>;
      { cache.applied() } noexcept;
    };

}  // namespace foredraft::inline v0
