#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/host_states.hpp>
#include <foredraft/backend/ops.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/cache/key_value_cache.hpp>
#include <foredraft/cache/state_cache.hpp>
#include <foredraft/cache/storage.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/detail/pool.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/io/vocabulary_difference.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/head_tokens.hpp>
#include <foredraft/model/layer_stack.hpp>
#include <foredraft/model/rope.hpp>
#include <foredraft/model/weights.hpp>

namespace foredraft::inline v0 {

namespace detail {

/// What a cache for backend B is asked for, where a user asks for S: a format, or a storage. Of the
/// backend's own storage the format is short, where caches know it.
template <typename B, typename S>
struct StoredFor {
  using type = S;
};
template <typename B, typename S>
  requires(!RowStorage<S> && NamesRows<B, S> &&
           !std::same_as<typename B::template Rows<S>, foredraft::RowsIn<S>>)
struct StoredFor<B, S> {
  using type = typename B::template Rows<S>;
};

/// How backend B keeps states, where nobody asks.
template <typename B>
struct StatesFor {
  using type = Replay;
};
template <NamesStates B>
struct StatesFor<B> {
  using type = typename B::States;
};

}  // namespace detail

/// A decoder on backend `B`: an embedding, a stack of layers and a head. What differs
/// between families is in ModelConfig and in which weights exist. Weights are read-only; the caches
/// belong to the sequences, and what a pass works on belongs to the pass: many threads may
/// forward() at the same time, each with caches of its own. (Cpu runs one pass after the other.)
///
/// The backend is referred to and has to outlive the model.
template <typename B>
class Model {
  static_assert(Backend<B>);
  using Worker = typename B::Worker;

 public:
  using Matrix = typename B::Matrix;
  /// The rows of a backend's operators do not depend on one another (see backend/ops.hpp).
  static constexpr bool row_exact = true;

  /// @errors kUnsupportedModel for steps that the backend cannot compute
  Model(B& backend, ModelConfig config, ModelWeights<B> weights, Tokenizer tokenizer)
      : backend_(&backend),
        config_(std::move(config)),
        layers_(config_.d_model, config_.norm_epsilon, rotations(config_, weights.rope_factors),
                config_.layers, std::move(weights.layers)),
        weights_(std::move(weights)),
        tokenizer_(std::move(tokenizer)) {
    if (!EmbedsLayers<Worker> && weights_.layer_inputs) {
      throw Error(ErrorCode::kUnsupportedModel, "embeddings for each layer", "a single embedding",
                  "choose another backend, or another model");
    }
  }

  int vocab_size() const noexcept { return config_.n_vocab; }
  CacheShape shape() const {
    CacheShape shape = config_.cache_shape();
    if constexpr (HasPlace<B>) shape.place = backend_->place();
    return shape;
  }
  /// A cache for one sequence, whatever kinds of layers there are, in the backend's memory. Other
  /// caches are made from shape().
  /// @tparam S  how keys and values are stored: a format, or a storage
  /// @tparam V  how states of recurrent layers are kept
  /// @errors as HybridCache
  template <typename S = f16, StateStorage V = typename detail::StatesFor<B>::type>
    requires AttendsOver<Worker, RowsIn<typename detail::StoredFor<B, S>::type>>
  auto make_cache(const CacheOptions& options = {}) const {
    CacheShape shape = this->shape();
    shape.sinks = options.sinks;
    return HybridCache<typename detail::StoredFor<B, S>::type, V>{shape, options.n_ctx,
                                                                  options.max_staged};
  }
  const ModelConfig& config() const noexcept { return config_; }
  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  /// The tokens that the head knows, ascending; empty: all. Others have logit -inf.
  std::span<const TokenId> head_tokens() const noexcept { return weights_.head_tokens; }
  bool is_end(TokenId token) const noexcept { return tokenizer_.is_end(token); }
  /// All of them, ascending.
  std::span<const TokenId> ends() const noexcept { return tokenizer_.vocabulary().ends(); }
  /// Tokens that it may not write.
  std::span<const TokenId> suppressed() const noexcept {
    return tokenizer_.vocabulary().suppressed();
  }
  std::string piece(TokenId token) const { return std::string(tokenizer_.piece(token)); }
  TargetInfo info() const {
    return {config_.n_vocab, vocabulary_info(tokenizer_.vocabulary()), config_.d_model,
            layers_.size()};
  }

  /// What its embedding and its head do, but for the rows they do it to: for layers of somebody else
  /// between them, as those of a trained head. Rows of the head are head_tokens(), where there are any.
  EmbedArgs<Worker> embed_args() const noexcept {
    return EmbedArgs<Worker>{.table = &weights_.embedding, .scale = config_.embedding_scale};
  }
  HeadArgs<Worker> head_args() const noexcept {
    return HeadArgs<Worker>{
        .norm = {.weight = weights_.output_norm.data(), .epsilon = config_.norm_epsilon},
        .w = &weights_.output(),
        .scale = config_.logit_scale,
        .softcap = config_.logit_softcap};
  }

  /// One pass over the weights for all rows of all requests.
  /// @errors kTokenOutOfRange, kInvalidOption for a tap behind no layer, kOutOfMemory for more rows
  /// than a pass can have, for a cache without the states of recurrent layers, std::bad_alloc;
  /// nothing has happened then
  template <KeyValueCache C>
    requires detail::RunsOver<Worker, typename C::Rows, typename detail::StatesOf<C>::type>
  void forward(std::span<Request<C>> requests) {
    forward_some(requests, {});
  }

 private:
  template <typename>
  friend class PartialModel;

  /// @param runs  [n_layers] which layers are run, or empty: all
  template <KeyValueCache C>
  void forward_some(std::span<Request<C>> requests, std::span<const std::uint8_t> runs) {
    [[maybe_unused]] const auto scope = scope_of(*backend_);
    const auto work = workspaces_.borrow(
        [this] { return Workspace{typename LayerStack<B>::Workspace(layers_)}; });
    const PassShape shape = shape_of(requests);
    auto pass = layers_.prepare(requests, work->layers);
    pass.runs = runs;
    HeadRows head;
    const Rows rows = prepare(requests, head);
    if (rows.tokens.empty()) return;
    const Out<Worker> x = work->x.reserve(area(shape.n_rows, shape.d_model));
    if (weights_.layer_inputs) {
      pass.inputs = work->inputs.reserve(area(shape.n_rows, shape.d_inputs));
      pass.d_input = config_.d_input;
    }
    EmbedArgs<Worker> embed = embed_args();
    embed.tokens = rows.tokens;
    embed.x = x;
    HeadArgs<Worker> scoring = head_args();
    scoring.x = x;
    scoring.rows = head.rows;
    scoring.argmax = head.argmax;
    scoring.logits = head.logits;
    scoring.maxima = head.maxima;
    scoring.sums = head.sums;
    scoring.top = head.top;
    backend_->run(shape, [&](auto& worker) noexcept {
      worker.embed(embed);
      embed_layers(worker, rows.tokens, x, pass.inputs);
      layers_.run(worker, pass, x, [&](int layer) noexcept {
        if (rows.taps.empty()) return;
        worker.tap(
            TapArgs<Worker>{.x = x, .d_model = config_.d_model, .taps = rows.taps[idx(layer)]});
      });
      worker.head(scoring);
    });
    if constexpr (StateCache<C>) {
      for (const Request<C>& request : requests) request.cache->applied();
    }
    hand_out(requests, head);
  }

  /// Memory that passes use one after the other.
  struct Workspace {
    typename LayerStack<B>::Workspace layers;
    typename B::template Buffer<float> x = {};       // [n_rows, d_model] residual stream
    typename B::template Buffer<float> inputs = {};  // [n_rows, n_layers * d_input]
  };

  /// The rows of a pass: what they are, and what is wanted of them between the layers.
  struct Rows {
    std::vector<TokenId> tokens = {};         // [n_rows]
    std::vector<std::vector<Tap>> taps = {};  // [n_layers], or empty where nobody wants any
  };

  /// Rows whose scores somebody reads, and where these go.
  struct HeadRows {
    std::vector<std::int32_t> rows = {};
    std::vector<TokenId> argmax = {};   // [rows]
    std::vector<TokenId> top = {};      // [rows, Scores::kTop], or empty where nobody wants them
    std::vector<float*> logits = {};    // [rows], null where only the argmax is read
    std::vector<float*> maxima = {};    // [rows], likewise; empty for a trimmed head
    std::vector<SumsOfRuns> sums = {};  // [rows], likewise
  };

  static std::vector<RopeRotations> rotations(const ModelConfig& config,
                                              std::span<const float> factors) {
    std::vector<RopeRotations> rotations;
    for (const RopeShape& rope : config.ropes) {
      rotations.emplace_back(rope, rope.factored ? factors : std::span<const float>());
    }
    return rotations;
  }

  void embed_layers(Worker& worker, std::span<const TokenId> tokens, In<Worker> x,
                    Out<Worker> inputs) const noexcept {
    if constexpr (EmbedsLayers<Worker>) {
      if (!weights_.layer_inputs) return;
      const auto& [table, projection, norm] = *weights_.layer_inputs;
      worker.embed_layers(EmbedLayersArgs<Worker>{
          .x = x,
          .tokens = tokens,
          .table = &table,
          .projection = &projection,
          .norm = {.weight = norm.data(), .epsilon = config_.input_norm_epsilon},
          .d_input = config_.d_input,
          .scale = config_.input_scale,
          .inputs = inputs});
    }
  }

  /// Collect the rows of all requests and make room for all that a pass hands out: nothing
  /// allocates once it runs.
  template <typename C>
  Rows prepare(std::span<Request<C>> requests, HeadRows& head) const {
    Rows rows;
    for (Request<C>& request : requests) {
      check_taps(request.want.taps);
      request.scores->reset(request.want, request.count, config_.n_vocab, config_.d_model,
                            FindsTop<Worker>);
      for (int i = 0; i < request.count; ++i) {
        const int row = static_cast<int>(rows.tokens.size());
        rows.tokens.push_back(checked(request.cache->token(request.first + i)));
        if (request.want.rows != RowNeed::kNothing)
          add_head_row(*request.scores, i, row, request.want, head);
        for (const int layer : request.scores->tapped()) {
          rows.taps.resize(config_.layers.size());
          rows.taps[idx(layer)].push_back(
              Tap{.row = row, .to = request.scores->tap(i, layer).data()});
        }
      }
    }
    head.argmax.resize(head.rows.size());
    const auto wants_top = [](const Request<C>& request) {
      return request.scores->need() == RowNeed::kTop;
    };
    if (std::any_of(requests.begin(), requests.end(), wants_top))
      head.top.resize(head.rows.size() * idx(Scores::kTop));
    return rows;
  }

  void add_head_row(Scores& scores, int i, int row, const Want& want, HeadRows& head) const {
    head.rows.push_back(row);
    head.logits.push_back(scores.logits(i).data());
    if (!weights_.head_tokens.empty()) return;
    head.maxima.push_back(scores.hand_over_maxima(i).data());
    head.sums.push_back(
        SumsOfRuns{.to = scores.hand_over_sums(i).data(), .temperature = want.temperature});
  }

  TokenId checked(TokenId token) const {
    if (token >= 0 && token < config_.n_vocab) return token;
    throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(token),
                "a token below " + std::to_string(config_.n_vocab), "");
  }

  /// @errors kOutOfMemory for activations that no `int` counts, which operators rely on
  template <typename C>
  PassShape shape_of(std::span<Request<C>> requests) const {
    std::int64_t n_rows = 0;
    for (const Request<C>& request : requests) n_rows += request.count;
    PassShape shape = layers_.shape();
    if (config_.d_input > 0) {
      shape.d_inputs = *checked_product(layers_.size(), config_.d_input);
      shape.d_ff = std::max(int{shape.d_ff}, int{config_.d_input});
    }
    if (n_rows > std::numeric_limits<int>::max() / std::max(1, int{shape.widest()})) {
      throw Error(ErrorCode::kOutOfMemory, "a pass of " + std::to_string(n_rows) + " rows",
                  "fewer than 2^31 activations", "forward fewer rows at once");
    }
    shape.n_rows = static_cast<int>(n_rows);
    return shape;
  }

  void check_taps(std::span<const int> taps) const {
    for (const int layer : taps) {
      if (layer >= 0 && layer < layers_.size()) continue;
      throw Error(ErrorCode::kInvalidOption, "a tap behind layer " + std::to_string(layer),
                  "layers 0 to " + std::to_string(layers_.size() - 1), "");
    }
  }

  template <typename C>
  void hand_out(std::span<Request<C>> requests, const HeadRows& head) noexcept {
    // Rows of a trimmed head become tokens. They ascend, so the first of equals is the lowest id.
    const std::vector<TokenId>& kept = weights_.head_tokens;
    const auto token_of = [&](TokenId row) {
      return kept.empty() || row < 0 ? row : kept[idx(row)];
    };
    std::size_t at = 0;  // in head.rows
    for (Request<C>& request : requests) {
      const std::span<TokenId> argmax = request.scores->argmax();
      for (int i = 0; i < static_cast<int>(argmax.size()); ++i, ++at) {
        argmax[idx(i)] = token_of(head.argmax[at]);
        const auto top = request.scores->top(i);
        for (std::size_t k = 0; k < top.size(); ++k)
          top[k] = token_of(head.top[at * idx(Scores::kTop) + k]);
      }
    }
    if (kept.empty()) return;
    for (float* logits : head.logits) {
      if (logits != nullptr) spread_logits(kept, {logits, idx(config_.n_vocab)});
    }
  }

  B* backend_;
  ModelConfig config_;
  LayerStack<B> layers_;
  ModelWeights<B> weights_;  // all but those of the layers
  Tokenizer tokenizer_;
  detail::Pool<Workspace> workspaces_;
};

}  // namespace foredraft::inline v0
