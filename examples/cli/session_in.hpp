#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/decoder.hpp>
#include <foredraft/drafter/ngram_cache.hpp>
#include <foredraft/prefix_store.hpp>

#include "session.hpp"

namespace cli {

/// A session over a model on some backend.
/// @tparam M  the model
/// @tparam C  its cache
template <typename M, typename C, fd::Shape S, typename Rule>
class SessionIn final : public Session {
 public:
  SessionIn(M& model, C cache, Drafters<S> drafters, Rule rule)
      : decoder_(model, std::move(cache), std::move(drafters), std::move(rule)),
        recurrent_(!model.shape().states.empty()) {}

  fd::Result generate(std::span<const fd::TokenId> prompt, const fd::Options& options,
                      const Emit& emit) override {
    const fd::Stats read = recall(prompt, options);
    fd::Result result = shift_ ? fd::generate_shifting(decoder_, prompt, options, *shift_, emit)
                               : decoder_.generate(prompt, options, emit);
    add(read, result.stats);
    return result;
  }

  fd::Result read(std::span<const fd::TokenId> prompt, const fd::Options& options) override {
    const fd::Stats read = recall(prompt, options);
    fd::Result result = decoder_.prefill(prompt, options);
    add(read, result.stats);
    return result;
  }

  std::span<const fd::TokenId> tokens() const override { return decoder_.tokens(); }
  void shift_context(fd::ContextShift shift) override { shift_ = shift; }
  void use_store(std::size_t bytes) override { store_.emplace(bytes); }
  void keep() override {
    if (store_) store_->keep(decoder_);
  }

  void save(std::ostream& out, const fd::SnapshotOwner& owner, const std::string& note) override {
    fd::save_snapshot(out, decoder_.snapshot(), owner, note);
  }
  Loaded load(std::istream& in, const fd::SnapshotOwner& owner) override {
    const auto loaded = fd::load_snapshot(in, decoder_.snapshot(), owner);
    decoder_.restore(loaded.snapshot);
    return {loaded.note, loaded.drafters};
  }

  void learn() override {
    for (const std::string& name : drafter_names()) {
      if (auto* counts = drafter(name)->template get<fd::NgramCache>()) counts->learn();
    }
  }

  fd::ControllerState controller_state() override { return decoder_.drafter().learned(); }
  void restore(const fd::ControllerState& state) override { decoder_.drafter().learn_from(state); }

  std::vector<std::string> drafter_names() override {
    std::vector<std::string> names;
    for (int i = 0; i < decoder_.drafter().size(); ++i) {
      names.push_back(decoder_.drafter().name(i));
    }
    return names;
  }

  std::vector<fd::DrafterReport> reports() override {
    std::vector<fd::DrafterReport> reports;
    for (int i = 0; i < decoder_.drafter().size(); ++i) {
      reports.push_back(decoder_.drafter().controller().report(fd::idx(i)));
    }
    return reports;
  }

  TreeDrafter* drafter(const std::string& name) override {
    for (int i = 0; i < decoder_.drafter().size(); ++i) {
      if (decoder_.drafter().name(i) == name) return &decoder_.drafter().part(i);
    }
    return nullptr;
  }

 private:
  using Decoder = fd::Decoder<M, C, Drafters<S>, Rule>;

  /// Tokens between two states of recurrent layers that are kept of a prompt: another prompt that
  /// parts from it reads fewer than that again.
  static constexpr int kStatesEvery = 512;

  /// What was read while looking for what is known of the prompt.
  fd::Stats recall(std::span<const fd::TokenId> prompt, const fd::Options& options) {
    if (!store_) return {};
    if (recurrent_) return store_->read(decoder_, prompt, options, kStatesEvery);
    store_->recall(decoder_, prompt);
    return {};
  }
  /// What recall() read was in the cache when the decoder came to it, and would count as reused.
  static void add(const fd::Stats& read, fd::Stats& stats) noexcept {
    if (read.prompt_tokens == 0) return;
    stats.reused_tokens = read.reused_tokens;
    stats.seconds.prefill += read.seconds.prefill;
  }

  Decoder decoder_;
  bool recurrent_;  // has states, which only snapshots can go back to
  std::optional<fd::ContextShift> shift_;
  std::optional<fd::PrefixStore<Decoder>> store_;
};

/// @errors what the drafters throw
template <typename M, typename C>
std::unique_ptr<Session> session_over(M& model, C cache, Models& models, const Method& method) {
  if (method.rule.make_for_trees != nullptr) {
    return std::make_unique<SessionIn<M, C, fd::Shape::kTree, fd::AnyTreeAcceptance>>(
        model, std::move(cache), make_drafters<fd::Shape::kTree>(models, method),
        method.rule.make_for_trees());
  }
  return std::make_unique<SessionIn<M, C, fd::Shape::kChain, fd::AnyAcceptance>>(
      model, std::move(cache), make_drafters<fd::Shape::kChain>(models, method),
      method.rule.make());
}

}  // namespace cli
