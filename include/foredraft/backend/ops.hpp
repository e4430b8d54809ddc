#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Arguments of the fused operators that every backend offers (see Backend in backend/backend.hpp).
///
/// All of them work on the rows of one forward pass. A row is one staged token of one sequence.
/// Shapes are row-major. Pointers are read-only unless the comment says "written".
///
/// The promise behind them: what is computed for a row depends on that row and on the keys and
/// values it may see, never on how many other rows take part, on their order, or on the number of
/// threads.

/// How the pairs of a head are laid out for rotary position embedding.
enum class RopeKind : std::uint8_t {
  kAdjacent,  ///< (0,1), (2,3), ...: the `llama` family as GGUF stores it
  kHalves,    ///< (0, n_rot/2), (1, n_rot/2 + 1), ...: `qwen2`, `gemma`
};

/// Rotation of every row of the pass, computed once and shared by all layers.
struct RopeTable {
  RopeKind kind = RopeKind::kAdjacent;
  int n_rot = 0;               // leading dimensions of each head that turn
  const float* cos = nullptr;  // [n_rows, n_rot / 2]
  const float* sin = nullptr;  // [n_rows, n_rot / 2]
};

/// Root-mean-square norm: y = x / sqrt(mean(x^2) + epsilon) * weight.
struct RmsNorm {
  const float* weight = nullptr;  // [d_model]
  float epsilon = 1e-5f;
};

/// Keys and values of one layer of one sequence, as a cache exposes them to a backend.
///
/// Row `r` of head `h` begins at `v + h * head_stride + r * row_elements<T>(d_head)`, likewise in
/// `k` where the row lies in no whole block of committed keys (backend/key_blocks.hpp). Every block
/// of kKeyBlock rows begins at a multiple of 64 bytes. Committed rows are
/// 0 .. size-1, row r at position r; staged rows lie behind them in node order. A tree node's row
/// is therefore not its position: `path` says where the positions from `size` on are stored for a
/// given node.
template <typename T>
struct KvLayer {
  T* k = nullptr;
  T* v = nullptr;
  std::size_t head_stride = 0;  // elements between two heads
  Position size = 0;            // committed rows
  Position in_blocks = 0;       // committed rows whose keys the pass finds in blocks
};

/// The rows of one sequence inside a forward pass. Row `first_row + i` of the pass is staged node
/// `first_node + i`.
struct SequenceRows {
  int first_row = 0;
  int n_rows = 0;
  NodeIndex first_node = 0;
  Position size = 0;  // committed rows of the sequence

  /// Storage rows of the positions size, size + 1, ... up to and including the node itself, for
  /// each row: those of row i are path[path_begin[i]] .. path[path_begin[i + 1] - 1]. Both are
  /// empty where the staged nodes form one chain: then storage row == position for everything.
  std::span<const std::int32_t> path;
  std::span<const std::int32_t> path_begin;  // [n_rows + 1]

  bool chain() const noexcept { return path_begin.empty(); }
};

/// x = table[token], times `scale`.
template <typename Matrix>
struct EmbedArgs {
  const Matrix* table = nullptr;    // [n_vocab, d_model]
  const TokenId* tokens = nullptr;  // [n_rows]
  int n_rows = 0;
  float scale = 1.0f;
  float* x = nullptr;  // written [n_rows, d_model]
};

/// norm(x) -> q, k, v; rotate q and k; keep q; write k and v into the staged rows of the caches.
/// K and V are stored in the cache's format T before anything reads them, the own row included.
/// Committed keys of blocks that are whole go into their order: complete_key_blocks().
template <typename Matrix, typename T>
struct QkvArgs {
  const float* x = nullptr;  // [n_rows, d_model]
  int n_rows = 0;
  RmsNorm norm;
  const Matrix* wq = nullptr;     // [n_heads * d_head, d_model]
  const Matrix* wk = nullptr;     // [n_kv_heads * d_head, d_model]
  const Matrix* wv = nullptr;     // [n_kv_heads * d_head, d_model]
  const float* q_bias = nullptr;  // [n_heads * d_head] or null
  const float* k_bias = nullptr;  // [n_kv_heads * d_head] or null
  const float* v_bias = nullptr;  // [n_kv_heads * d_head] or null
  int n_heads = 0;
  int n_kv_heads = 0;
  int d_head = 0;
  RopeTable rope;
  std::span<const SequenceRows> sequences;  // every row of the pass in one of them
  std::span<const KvLayer<T>> kv;           // one for each of `sequences`
  float* q = nullptr;                       // written [n_rows, n_heads, d_head]
};

/// x += wo * attention, where attention is softmax(q k^T * scale) v of each head, causal along each
/// row's own path and summed in order of absolute position.
template <typename Matrix, typename T>
struct AttendArgs {
  const float* q = nullptr;  // [n_rows, n_heads, d_head]
  int n_rows = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int d_head = 0;
  float scale = 1.0f;
  std::span<const SequenceRows> sequences;  // every row of the pass in one of them
  std::span<const KvLayer<T>> kv;           // one for each of `sequences`
  const Matrix* wo = nullptr;               // [d_model, n_heads * d_head]
  float* x = nullptr;                       // read and written [n_rows, d_model]
};

enum class Activation : std::uint8_t {
  kSilu,
  kGeluTanh
};

/// x += down * (activation(gate * norm(x)) .* (up * norm(x)))
template <typename Matrix>
struct FeedForwardArgs {
  float* x = nullptr;  // read and written [n_rows, d_model]
  int n_rows = 0;
  RmsNorm norm;
  Activation activation = Activation::kSilu;
  const Matrix* gate = nullptr;  // [d_ff, d_model]
  const Matrix* up = nullptr;    // [d_ff, d_model]
  const Matrix* down = nullptr;  // [d_model, d_ff]
};

/// Where sums of weights go: see Runs::sums.
struct SumsOfRuns {
  double* to = nullptr;  // written [ceil(n_vocab / Scores::kRun)]; null where nobody wants them
  float temperature = 1.0f;
};

/// Rows of the output head, for those rows of the pass that somebody reads.
template <typename Matrix>
struct HeadArgs {
  const float* x = nullptr;            // [n_rows of the pass, d_model]
  std::span<const std::int32_t> rows;  // rows of the pass to compute, ascending
  RmsNorm norm;
  const Matrix* w = nullptr;  // [n_vocab, d_model]
  /// Written: id of the greatest logit, ties to the lowest; -1 where a row holds NaN or +inf.
  std::span<TokenId> argmax;  // [rows.size()]
  /// One pointer a row, written [n_vocab], or null where only the argmax is wanted.
  std::span<float* const> logits;  // [rows.size()]
  /// Likewise, written [ceil(n_vocab / Scores::kRun)]: see Runs.
  std::span<float* const> maxima = {};    // [rows.size()] or empty
  std::span<const SumsOfRuns> sums = {};  // [rows.size()] or empty
};

}  // namespace foredraft::inline v0
