#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/key_blocks.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/detail/pool.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/io/vocabulary_difference.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/head_tokens.hpp>
#include <foredraft/model/rope.hpp>
#include <foredraft/model/weights.hpp>

namespace foredraft::inline v0 {

/// A transformer decoder on backend `B`: one template for all families; what differs is in
/// ModelConfig and in which weights exist. Weights are read-only; the caches belong to the
/// sequences, and what a pass works on belongs to the pass: many threads may forward() at the same
/// time, each with caches of its own. (Cpu runs one pass after the other.)
///
/// The backend is referred to and has to outlive the model.
template <typename B>
class Model {
 public:
  using Matrix = typename B::Matrix;
  /// The rows of a backend's operators do not depend on one another (see backend/ops.hpp).
  static constexpr bool row_exact = true;

  Model(B& backend, ModelConfig config, ModelWeights<B> weights, Tokenizer tokenizer)
      : backend_(&backend),
        config_(std::move(config)),
        weights_(std::move(weights)),
        tokenizer_(std::move(tokenizer)) {}

  int vocab_size() const noexcept { return config_.n_vocab; }
  CacheShape shape() const noexcept { return config_.cache_shape(); }
  const ModelConfig& config() const noexcept { return config_; }
  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  /// The tokens that the head knows, ascending; empty: all. Others have logit -inf.
  std::span<const TokenId> head_tokens() const noexcept { return weights_.head_tokens; }
  bool is_end(TokenId token) const noexcept { return tokenizer_.is_end(token); }
  std::string piece(TokenId token) const { return std::string(tokenizer_.piece(token)); }

  /// One pass over the weights for all rows of all requests.
  /// @errors kTokenOutOfRange, kInvalidOption for a tap behind no layer, kOutOfMemory for more rows
  /// than a pass can have, std::bad_alloc; nothing has happened then
  template <typename C>
  void forward(std::span<Request<C>> requests) {
    const auto work = workspaces_.borrow([this] { return Workspace{rotations()}; });
    Pass<typename C::value_type> pass = prepare(requests, *work);
    if (pass.tokens.empty()) return;
    backend_->run(pass.shape, [&](auto& lane) noexcept {
      lane.embed(
          EmbedArgs<Matrix>{&weights_.embedding, pass.tokens.data(), pass.n_rows(), 1.0f, pass.x});
      for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
        run_layer(lane, weights_.layers[layer], pass, layer);
        if (lane.index() == 0) copy_taps(requests, pass, static_cast<int>(layer));
      }
      lane.head(HeadArgs<Matrix>{pass.x,
                                 pass.head_rows,
                                 {weights_.output_norm.data(), config_.norm_epsilon},
                                 &weights_.output(),
                                 pass.argmax,
                                 pass.logits,
                                 pass.maxima,
                                 pass.sums});
    });
    for (Request<C>& request : requests) request.cache->key_blocks_completed();
    hand_out(requests, pass);
  }

 private:
  /// Memory that passes use one after the other.
  struct Workspace {
    RopeRotations rotations;
    std::vector<float> x = {};  // [n_rows, d_model] residual stream
    std::vector<float> q = {};  // [n_rows, d_q]
  };

  /// What one forward pass works on.
  template <typename T>
  struct Pass {
    PassShape shape;
    float* x = nullptr;                   // of the workspace
    float* q = nullptr;                   // likewise
    std::vector<TokenId> tokens;          // [n_rows]
    std::vector<SequenceRows> sequences;  // [n_requests]
    std::vector<KvLayer<T>> kv;           // [n_layers, n_requests]
    RopeTable rope;                       // [n_rows]
    std::vector<std::int32_t> head_rows;  // rows whose scores somebody reads
    std::vector<TokenId> argmax;          // [head_rows]
    std::vector<float*> logits;           // [head_rows], null where only the argmax is read
    std::vector<float*> maxima;           // [head_rows], likewise; empty for a trimmed head
    std::vector<SumsOfRuns> sums;         // [head_rows], likewise

    int n_rows() const noexcept { return static_cast<int>(tokens.size()); }
    std::span<const KvLayer<T>> kv_of(std::size_t layer) const noexcept {
      return std::span(kv).subspan(layer * sequences.size(), sequences.size());
    }
  };

  /// The layer as the papers draw it: attention and a gated feed-forward part, each on a normed
  /// copy of x, each added back to x.
  template <typename Lane, typename T>
  void run_layer(Lane& lane, const LayerWeights<B>& w, const Pass<T>& pass,
                 std::size_t layer) noexcept {
    const ModelConfig& c = config_;
    const int rows = pass.n_rows();
    const auto bias = [](const std::vector<float>& values) {
      return values.empty() ? nullptr : values.data();
    };
    const float scale = 1.0f / std::sqrt(static_cast<float>(c.d_head));

    lane.qkv(QkvArgs<Matrix, T>{pass.x,
                                rows,
                                {w.attn_norm.data(), c.norm_epsilon},
                                &w.wq,
                                &w.wk,
                                &w.wv,
                                bias(w.q_bias),
                                bias(w.k_bias),
                                bias(w.v_bias),
                                c.n_heads,
                                c.n_kv_heads,
                                c.d_head,
                                pass.rope,
                                pass.sequences,
                                pass.kv_of(layer),
                                pass.q});
    lane.attend(AttendArgs<Matrix, T>{pass.q, rows, c.n_heads, c.n_kv_heads, c.d_head, scale,
                                      pass.sequences, pass.kv_of(layer), &w.wo, pass.x});
    lane.feed_forward(FeedForwardArgs<Matrix>{
        pass.x, rows, {w.ffn_norm.data(), c.norm_epsilon}, c.activation, &w.gate, &w.up, &w.down});
  }

  /// Collect the rows of all requests and reserve all memory: nothing allocates once the pass runs.
  template <typename C>
  Pass<typename C::value_type> prepare(std::span<Request<C>> requests, Workspace& work) {
    Pass<typename C::value_type> pass;
    pass.shape = shape_of(requests);
    std::vector<Position> positions;
    for (Request<C>& request : requests) {
      check_taps(request.want.taps);
      pass.sequences.push_back(request.cache->rows(request.first, request.count, pass.n_rows()));
      request.scores->reset(request.want, request.count, config_.n_vocab, config_.d_model);
      for (int i = 0; i < request.count; ++i) {
        const TokenId token = request.cache->token(request.first + i);
        if (token < 0 || token >= config_.n_vocab) {
          throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                      "a token below " + std::to_string(config_.n_vocab), "");
        }
        if (request.want.rows != RowNeed::kNothing) {
          pass.head_rows.push_back(pass.n_rows());
          pass.logits.push_back(request.scores->logits(i).data());
          if (weights_.head_tokens.empty()) {
            pass.maxima.push_back(request.scores->hand_over_maxima(i).data());
            pass.sums.push_back(
                {request.scores->hand_over_sums(i).data(), request.want.temperature});
          }
        }
        pass.tokens.push_back(token);
        positions.push_back(request.cache->position(request.first + i));
      }
    }
    // Of several requests of one cache the first one puts its keys in order.
    std::vector<bool> ordered_by_another;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto same = [&](const Request<C>& r) { return r.cache == requests[i].cache; };
      const auto before = requests.first(i);
      ordered_by_another.push_back(std::any_of(before.begin(), before.end(), same));
    }
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        pass.kv.push_back(requests[i].cache->layer(layer));
        KvLayer<typename C::value_type>& kv = pass.kv.back();
        if (ordered_by_another[i]) kv.in_blocks = positions_in_key_blocks(kv.size);
      }
    }
    pass.rope = work.rotations.table(positions);
    pass.argmax.resize(pass.head_rows.size());
    pass.x = grown(work.x, area(pass.shape.n_rows, config_.d_model));
    pass.q = grown(work.q, area(pass.shape.n_rows, config_.d_q));
    return pass;
  }

  /// @errors kOutOfMemory for activations that no `int` counts, which operators rely on
  template <typename C>
  PassShape shape_of(std::span<Request<C>> requests) const {
    std::int64_t n_rows = 0;
    for (const Request<C>& request : requests) n_rows += request.count;
    PassShape shape{{}, config_.d_model, config_.d_ff, config_.d_q, config_.d_kv, config_.d_head};
    if (n_rows > std::numeric_limits<int>::max() / std::max(1, int{shape.widest()})) {
      throw Error(ErrorCode::kOutOfMemory, "a pass of " + std::to_string(n_rows) + " rows",
                  "fewer than 2^31 activations", "forward fewer rows at once");
    }
    shape.n_rows = static_cast<int>(n_rows);
    return shape;
  }

  RopeRotations rotations() const {
    return {config_.rope, config_.n_rot, config_.rope_base, config_.rope_scale,
            weights_.rope_factors};
  }

  void check_taps(std::span<const int> taps) const {
    for (const int layer : taps) {
      if (layer >= 0 && layer < config_.n_layers) continue;
      throw Error(ErrorCode::kInvalidOption, "a tap behind layer " + std::to_string(layer),
                  "layers 0 to " + std::to_string(config_.n_layers - 1), "");
    }
  }

  static float* grown(std::vector<float>& buffer, std::size_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return buffer.data();
  }

  template <typename C, typename T>
  void copy_taps(std::span<Request<C>> requests, const Pass<T>& pass, int layer) noexcept {
    const auto d_model = static_cast<std::size_t>(config_.d_model);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const std::span<const int> taps = requests[r].want.taps;
      for (std::size_t tap = 0; tap < taps.size(); ++tap) {
        if (taps[tap] != layer) continue;
        for (int row = 0; row < requests[r].count; ++row) {
          const float* from =
              pass.x + static_cast<std::size_t>(pass.sequences[r].first_row + row) * d_model;
          std::copy_n(from, d_model, requests[r].scores->tap(row, static_cast<int>(tap)).data());
        }
      }
    }
  }

  template <typename C, typename T>
  void hand_out(std::span<Request<C>> requests, const Pass<T>& pass) noexcept {
    // Rows of a trimmed head become tokens. They ascend, so the first of equals is the lowest id.
    const std::vector<TokenId>& kept = weights_.head_tokens;
    const TokenId* best = pass.argmax.data();
    for (Request<C>& request : requests) {
      for (TokenId& argmax : request.scores->argmax()) {
        argmax = kept.empty() || *best < 0 ? *best : kept[static_cast<std::size_t>(*best)];
        ++best;
      }
    }
    if (kept.empty()) return;
    for (float* logits : pass.logits) {
      if (logits != nullptr)
        spread_logits(kept, {logits, static_cast<std::size_t>(config_.n_vocab)});
    }
  }

  B* backend_;
  ModelConfig config_;
  ModelWeights<B> weights_;
  Tokenizer tokenizer_;
  detail::Pool<Workspace> workspaces_;
};

/// Two models may work on one text only where each id stands for the same piece.
/// @errors kVocabularyMismatch, naming the first difference
template <typename B1, typename B2>
void check_same_vocabulary(const Model<B1>& target, const Model<B2>& draft) {
  require_same_vocabulary(target.tokenizer().vocabulary(), draft.tokenizer().vocabulary());
}

}  // namespace foredraft::inline v0
