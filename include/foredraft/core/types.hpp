#pragma once

#include <cstdint>

#include <foredraft/core/dimension.hpp>

namespace foredraft::inline v0 {

/// Index into the target's vocabulary, 0 <= id < n_vocab.
using TokenId = std::int32_t;

/// Absolute place of a token in its sequence; the first prompt token is at 0.
using Position = std::int32_t;

/// Index of a staged node. Staged rows are numbered from 0 behind the committed rows of a cache.
using NodeIndex = std::int32_t;

/// Parent of a node that follows directly after the committed rows.
inline constexpr NodeIndex kCommitted = -1;

/// One staged token: what it is and which staged token it follows. Parents come before children.
struct Node {
  TokenId token = 0;
  NodeIndex parent = kCommitted;

  friend bool operator==(const Node&, const Node&) = default;
};

/// Dimensions that a cache of keys and values has to know of a model.
struct CacheShape {
  Dim n_layers = 0;
  Dim n_kv_heads = 0;
  Dim d_head = 0;
  Dim n_ctx = 0;  ///< positions that the model was trained for; a cache may be made smaller
};

}  // namespace foredraft::inline v0
