#pragma once

#include <cstdint>
#include <span>

#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Arguments of the fused operators that every backend offers (see Backend in backend/backend.hpp).
///
/// All of them work on the rows of one forward pass. A row is one staged token of one sequence.
/// Shapes are row-major. Pointers are read-only unless the comment says "written".
///
/// `W` is the backend's Worker. It names the matrices and the pointers into the backend's memory,
/// which the host need not be able to read: weights, activations, rotations, keys and values. What
/// is small and new in each pass (tokens, row numbers, paths) and what a pass hands out lies in the
/// host's memory. `R` is how the cache stores keys and values, see RowStorage in
/// backend/row_storage.hpp.
///
/// The promise behind them: what is computed for a row depends on that row and on the keys and
/// values it may see, never on how many other rows take part, on their order, or on the number of
/// threads.

template <typename W>
using In = typename W::template Pointer<const float>;
template <typename W>
using Out = typename W::template Pointer<float>;

/// How the pairs of a head are laid out for rotary position embedding.
enum class RopeKind : std::uint8_t {
  kAdjacent,  ///< (0,1), (2,3), ...: the `llama` family as GGUF stores it
  kHalves,    ///< (0, n_rot/2), (1, n_rot/2 + 1), ...: `qwen2`, `gemma`
};

enum class Activation : std::uint8_t {
  kSilu,
  kGeluTanh,
  kReluSquared,
  kSigmoid,
};

/// Rotation of every row of the pass, computed once and shared by all layers that turn alike.
template <typename W>
struct RopeTable {
  RopeKind kind = RopeKind::kAdjacent;
  int n_rot = 0;        // leading dimensions of each head that turn
  In<W> cos = nullptr;  // [n_rows, n_rot / 2]
  In<W> sin = nullptr;  // [n_rows, n_rot / 2]
};

/// Root-mean-square norm: y = x / sqrt(mean(x^2) + epsilon) * weight. Without weights: none, where
/// an operator says that a norm may be absent.
template <typename W>
struct RmsNorm {
  In<W> weight = nullptr;  // as many as x has, [d_model] or [d_head]
  float epsilon = 1e-5f;
};

/// The rows of one sequence inside a forward pass. Row `first_row + i` of the pass is staged node
/// `first_node + i`.
///
/// Its cache stores the committed positions and behind them the staged nodes; the two functions say
/// in which rows. Kernels of attention, which cannot call them, repeat that rule
/// (cpu::AttendTask::row_of, cuda::storage_row); nobody else does.
struct SequenceRows {
  int first_row = 0;
  int n_rows = 0;
  NodeIndex first_node = 0;
  Position size = 0;  // committed positions of the sequence

  /// Nodes from a root down to and including each row's own: those of row i are
  /// path[path_begin[i]] .. path[path_begin[i + 1] - 1], at the positions size, size + 1, ... Both
  /// are empty where the staged nodes form one chain.
  std::span<const NodeIndex> path;
  std::span<const std::int32_t> path_begin;  // [n_rows + 1]

  bool chain() const noexcept { return path_begin.empty(); }
  /// Positions up to that of row i, all of which it sees, or as far back as a window reaches.
  Position visible(int i) const noexcept {
    if (chain()) return size + first_node + i + 1;
    const auto row = idx(i);
    return size + path_begin[row + 1] - path_begin[row];
  }
  /// Storage row of a staged node.
  std::int32_t row_of(NodeIndex node) const noexcept { return size + node; }
  /// Storage row of a position that row i sees.
  std::int32_t row_of(int i, Position position) const noexcept {
    if (position < size || chain()) return position;
    return row_of(path[idx(path_begin[idx(i)] + position - size)]);
  }
};

/// x = table[token], times `scale`.
template <typename W>
struct EmbedArgs {
  const typename W::Matrix* table = nullptr;  // [n_vocab, d_model]
  std::span<const TokenId> tokens = {};       // [n_rows]
  float scale = 1.0f;
  Out<W> x = nullptr;  // written [n_rows, d_model]
};

/// What each layer is given of a token besides x, for all of them side by side:
/// (norm(projection * x) + scale * table[token]) / sqrt(2), with a norm for each layer's part.
/// @source transformers 5.17, models/gemma4 (per-layer embeddings)
template <typename W>
struct EmbedLayersArgs {
  In<W> x = nullptr;                               // [n_rows, d_model]
  std::span<const TokenId> tokens = {};            // [n_rows]
  const typename W::Matrix* table = nullptr;       // [n_vocab, n_layers * d_input]
  const typename W::Matrix* projection = nullptr;  // [n_layers * d_input, d_model]
  RmsNorm<W> norm = {};                            // [d_input]
  int d_input = 0;
  float scale = 1.0f;
  Out<W> inputs = nullptr;  // written [n_rows, n_layers * d_input]
};

/// norm(x) -> q, k, v; rotate q and k; keep q; write k and v into the staged rows of the caches.
/// K and V are stored in the cache's format before anything reads them, the own row included.
///
/// Without wk and wv, only q: the caches' rows are those of another layer, which wrote them. Without
/// wv alone, v is what k is before its norm and rotation.
template <typename W, typename R>
struct QkvArgs {
  In<W> x = nullptr;  // [n_rows, d_model]
  int n_rows = 0;
  RmsNorm<W> norm = {};                    // or absent
  const typename W::Matrix* wq = nullptr;  // [n_heads * d_head, d_model]
  const typename W::Matrix* wk = nullptr;  // [n_kv_heads * d_head, d_model] or null
  const typename W::Matrix* wv = nullptr;  // likewise
  In<W> q_bias = nullptr;                  // [n_heads * d_head] or null
  In<W> k_bias = nullptr;                  // [n_kv_heads * d_head] or null
  In<W> v_bias = nullptr;                  // [n_kv_heads * d_head] or null
  int n_heads = 0;
  int n_kv_heads = 0;
  int d_head = 0;
  RopeTable<W> rope = {};
  std::span<const SequenceRows> sequences = {};  // every row of the pass in one of them
  std::span<const typename R::Layer> kv = {};    // one for each of `sequences`
  Out<W> q = nullptr;                            // written [n_rows, n_heads, d_head]
  RmsNorm<W> q_norm = {};                        // of each head before it turns, or absent
  RmsNorm<W> k_norm = {};                        // likewise
  bool norms_all_heads = false;  // these norms are of all heads of a row together, side by side
  RmsNorm<W> v_norm = {};        // of each head of values, or absent
  const typename W::Matrix* w_gate = nullptr;  // [n_heads * d_head, d_model] or null
  Out<W> gate = nullptr;  // written [n_rows, n_heads, d_head]: w_gate * norm(x)
};

/// x += wo * attention, where attention is softmax(q k^T * scale) v of each head, causal along each
/// row's own path and summed in order of absolute position. With a window, a row sees the newest
/// `window` positions, its own included; with a softcap, the softmax is that of
/// softcap * tanh(score / softcap); with a gate, attention is multiplied by sigmoid(gate); with a
/// norm, x += norm(wo * attention). What is added to x is multiplied by `residual` first.
template <typename W, typename R>
struct AttendArgs {
  In<W> q = nullptr;  // [n_rows, n_heads, d_head]
  int n_rows = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int d_head = 0;
  float scale = 1.0f;
  std::span<const SequenceRows> sequences = {};  // every row of the pass in one of them
  std::span<const typename R::Layer> kv = {};    // one for each of `sequences`
  const typename W::Matrix* wo = nullptr;        // [d_model, n_heads * d_head]
  Out<W> x = nullptr;                            // read and written [n_rows, d_model]
  int window = 0;                                // 0: all positions
  RmsNorm<W> post_norm = {};                     // or absent
  float softcap = 0.0f;                          // 0: none
  float residual = 1.0f;
  Out<W> gate = nullptr;  // of qkv, read and overwritten [n_rows, n_heads, d_head], or null
};

/// x += down * (activation(gate * norm(x)) .* (up * norm(x))), or its norm, times `residual`; then x
/// times `output_scale`. Without `up`, `factor` stands in place of up * norm(x), or, where that is
/// null too, ones.
template <typename W>
struct FeedForwardArgs {
  Out<W> x = nullptr;  // read and written [n_rows, d_model]
  int n_rows = 0;
  RmsNorm<W> norm = {};  // or absent
  Activation activation = Activation::kSilu;
  const typename W::Matrix* gate = nullptr;  // [d_ff, d_model]
  const typename W::Matrix* up = nullptr;    // [d_ff, d_model] or null
  const typename W::Matrix* down = nullptr;  // [d_model, d_ff]
  RmsNorm<W> post_norm = {};                 // or absent
  float residual = 1.0f;
  In<W> factor = nullptr;  // [n_rows, factor_stride], of which the first d_ff; or null
  int factor_stride = 0;
  float output_scale = 1.0f;
};

/// An expert that all rows of a mixture take, as far as their score of it says.
template <typename W>
struct SharedExpert {
  const typename W::Matrix* score = nullptr;  // [1, d_model]; null: there is none
  const typename W::Matrix* gate = nullptr;   // [d_shared, d_model]
  const typename W::Matrix* up = nullptr;     // [d_shared, d_model]
  const typename W::Matrix* down = nullptr;   // [d_model, d_shared]
};

/// Of d_ff and d_model in a mixture: backends cut the matrix of all experts into panels of so many rows.
inline constexpr int kExpertMultiple = 16;

/// A feed-forward part for each of many experts, of which a row takes the n_used whose scores
/// router * norm(x) are greatest, equal ones by number:
/// x += sum of p_e * down_e * (activation(gate_e * norm(x)) .* (up_e * norm(x))), from the greatest
/// score on, p being the softmax of the scores of those taken. With a shared expert, what it says
/// comes first, times sigmoid(score * norm(x)).
///
/// The matrices of all experts lie one behind the other in one. d_model and d_ff are multiples of
/// kExpertMultiple.
template <typename W>
struct MixtureArgs {
  Out<W> x = nullptr;  // read and written [n_rows, d_model]
  int n_rows = 0;
  RmsNorm<W> norm = {};
  Activation activation = Activation::kSilu;
  const typename W::Matrix* router = nullptr;  // [n_experts, d_model]
  const typename W::Matrix* gate = nullptr;    // [n_experts * d_ff, d_model]
  const typename W::Matrix* up = nullptr;      // [n_experts * d_ff, d_model]
  const typename W::Matrix* down = nullptr;    // [n_experts * d_model, d_ff]
  int n_experts = 0;
  int n_used = 0;
  SharedExpert<W> shared = {};
};

/// A row of activations that somebody wants to see.
struct Tap {
  int row = 0;          // of the pass
  float* to = nullptr;  // written [d_model], in the host's memory
};

/// Hand out rows of x as they are between two layers.
template <typename W>
struct TapArgs {
  In<W> x = nullptr;  // [n_rows, d_model]
  int d_model = 0;
  std::span<const Tap> taps = {};
};

/// Where sums of weights go: see Runs::sums.
struct SumsOfRuns {
  double* to = nullptr;  // written [ceil(n_vocab / Scores::kRun)]; null where nobody wants them
  float temperature = 1.0f;
};

/// Rows of the output head, for those rows of the pass that somebody reads. A logit is
/// `scale` * (w * norm(x)); with a softcap, softcap * tanh(that / softcap).
template <typename W>
struct HeadArgs {
  In<W> x = nullptr;                        // [n_rows of the pass, d_model]
  std::span<const std::int32_t> rows = {};  // rows of the pass to compute, ascending
  RmsNorm<W> norm = {};
  const typename W::Matrix* w = nullptr;  // [n_vocab, d_model]
  /// Written: id of the greatest logit, ties to the lowest; -1 where a row holds NaN or +inf.
  std::span<TokenId> argmax = {};  // [rows.size()]
  /// One pointer a row, written [n_vocab], or null where only the argmax is wanted.
  std::span<float* const> logits = {};  // [rows.size()]
  /// Likewise, written [ceil(n_vocab / Scores::kRun)]: see Runs.
  std::span<float* const> maxima = {};    // [rows.size()] or empty
  std::span<const SumsOfRuns> sums = {};  // [rows.size()] or empty
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  /// Written as Scores::top() says, by a worker that finds_top. [rows.size(), Scores::kTop] or empty
  std::span<TokenId> top = {};
};

}  // namespace foredraft::inline v0
