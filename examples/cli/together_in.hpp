#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <foredraft/batch.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/prefix_store.hpp>

#include "draft.hpp"
#include "together.hpp"

namespace cli {

/// Over a model on some backend.
/// @tparam M  the model
/// @tparam C  its cache
template <typename M, typename C, fd::Shape S, typename Rule>
class TogetherIn final : public Together {
 public:
  /// @param make_cache  make_cache() for each writer
  template <typename MakeCache>
  TogetherIn(M& model, MakeCache make_cache, Rule (*make_rule)(), Models& models,
             const Method& method, int writers)
      : batch_(batch_of(model, models)) {
    for (int i = 0; i < writers; ++i)
      writers_.emplace_back(model, make_cache(), make_drafters<S>(models, method), make_rule());
  }

  std::future<fd::Result> generate(int writer, std::span<const fd::TokenId> prompt,
                                   const fd::Options& options, Emit emit) override {
    Decoder& decoder = writers_[fd::idx(writer)];
    if (store_) store_->recall(decoder, prompt);
    return batch_.generate(decoder, prompt, options, std::move(emit));
  }
  void step() override { batch_.step(); }

  std::span<const fd::TokenId> tokens(int writer) const override {
    return writers_[fd::idx(writer)].tokens();
  }
  void use_store(std::size_t bytes) override { store_.emplace(bytes); }
  void keep(int writer) override {
    if (store_) store_->keep(writers_[fd::idx(writer)]);
  }

 private:
  using Decoder = fd::Decoder<M, C, Drafters<S>, Rule>;
  using Batch = fd::Batch<M, C, Cache>;

  static Batch batch_of(M& model, Models& models) {
    Model* const draft = models.draft ? models.draft->on_cpu() : nullptr;
    return draft == nullptr ? Batch(model) : Batch(model, *draft);
  }

  std::deque<Decoder> writers_;
  std::optional<fd::PrefixStore<Decoder>> store_;
  Batch batch_;  // refers to the writers
};

/// @errors what the caches and the drafters throw
template <typename M, typename MakeCache>
std::unique_ptr<Together> together_over(M& model, MakeCache make_cache, Models& models,
                                        const Method& method, int writers) {
  using C = decltype(make_cache());
  if (method.rule.make_for_trees != nullptr) {
    return std::make_unique<TogetherIn<M, C, fd::Shape::kTree, fd::AnyTreeAcceptance>>(
        model, make_cache, method.rule.make_for_trees, models, method, writers);
  }
  return std::make_unique<TogetherIn<M, C, fd::Shape::kChain, fd::AnyAcceptance>>(
      model, make_cache, method.rule.make, models, method, writers);
}

}  // namespace cli
