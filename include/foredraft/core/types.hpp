#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/core/any_ref.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/index.hpp>

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

/// `count` tokens from `begin` on as nodes, each behind the one before.
inline std::vector<Node> chain_of(std::span<const TokenId> tokens, int begin, int count) {
  std::vector<Node> nodes(idx(count));
  for (int i = 0; i < count; ++i) {
    nodes[idx(i)] = {tokens[idx(begin + i)], i - 1};
  }
  return nodes;
}

/// The path through all nodes of a chain.
inline std::vector<NodeIndex> first_nodes(int count) {
  std::vector<NodeIndex> path(idx(count));
  for (int i = 0; i < count; ++i) path[idx(i)] = i;
  return path;
}

/// How the numbers of a stored key or value are written: see backend/row_format.hpp.
enum class RowFormat : std::uint8_t {
  kF32,
  kF16,
  kQ8_0,  ///< 32 numbers in 34 bytes
  kBF16,
};
inline constexpr int kRowFormats = 4;

/// Keys and values have a format each.
struct RowFormats {
  RowFormat k = RowFormat::kF16;
  RowFormat v = RowFormat::kF16;

  friend bool operator==(const RowFormats&, const RowFormats&) = default;
};

/// Keys, or values, of one position in one layer.
struct KeyValueShape {
  Dim n_kv_heads = 0;
  Dim d_head = 0;
  Dim window = 0;  ///< newest positions that a row reads, its own included; 0: all

  friend bool operator==(const KeyValueShape&, const KeyValueShape&) = default;
};

/// What a recurrent layer keeps of a sequence: what the newest tokens put in, and states that sum up
/// all before.
struct StateShape {
  Dim n_inputs = 0;  ///< values that a token puts in
  Dim window = 0;    ///< newest tokens before a row whose inputs it reads, as a convolution does
  Dim n_heads = 0;   ///< states, each changed by itself; 0: the layer has none
  Dim d_state = 0;   ///< values of one state

  friend bool operator==(const StateShape&, const StateShape&) = default;
};

/// What a cache has to know of a model.
struct CacheShape {
  std::vector<KeyValueShape> layers = {};  ///< of each layer that stores keys and values
  Dim n_ctx = 0;  ///< positions that the model was trained for; a cache may be made smaller
  std::vector<StateShape> states = {};  ///< of each recurrent layer
  Dim sinks = 0;            ///< first positions that rows of layers with a window read besides
  RowFormats formats = {};  ///< for a storage whose type leaves them open, such as cpu::AnyRows
  AnyRef place = {};  ///< where the model's passes run, for a storage in the memory of a device

  CacheShape() = default;
  CacheShape(std::vector<KeyValueShape> of_layers, Dim context)
      : layers(std::move(of_layers)), n_ctx(context) {}
  /// All layers alike.
  CacheShape(Dim n_layers, Dim n_kv_heads, Dim d_head, Dim context)
      : layers(idx(n_layers), KeyValueShape{n_kv_heads, d_head}), n_ctx(context) {}
};

}  // namespace foredraft::inline v0
