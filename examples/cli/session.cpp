#include "session.hpp"

#include <string>

#include <foredraft/core/draft_tree.hpp>

#include "cache_format.hpp"
#include "draft.hpp"
#include "memory.hpp"
#include "passes_in.hpp"
#include "session_in.hpp"
#include "target.hpp"
#include "together_in.hpp"

namespace cli {

namespace {

class CpuTarget final : public ModelOn<Model, Target> {
 public:
  CpuTarget(Model loaded, std::string isa) : ModelOn(std::move(loaded)), isa_(std::move(isa)) {}

  std::string arithmetic() const override { return isa_; }

  std::unique_ptr<Session> make_session(Models& models, const Method& method) override {
    // Looked at when the models were loaded, too, but there the context was known only with -c.
    require_memory(bytes(models, method), "a context of " + std::to_string(method.n_ctx),
                   "a smaller context (-c), or fewer tokens (-n)");
    return session_over(model, make_cache(method), models, method);
  }

  std::unique_ptr<Together> make_together(Models& models, const Method& method,
                                          int writers) override {
    // And a verification of each may ask for the logits of every node.
    const double logits = 4.0 * fd::DraftTree::kMaxNodes * model.vocab_size();
    require_memory(writers * (bytes(models, method) + logits),
                   "contexts of " + std::to_string(method.n_ctx) + " for " +
                       std::to_string(writers) + " texts at once",
                   "fewer at once (--parallel), a smaller context (-c), or fewer tokens (-n)");
    return together_over(model, [&] { return make_cache(method); }, models, method, writers);
  }

  std::unique_ptr<Passes> make_passes(int n_ctx, int rows) override {
    return std::make_unique<PassesIn<Model, Cache>>(model, Cache(model.shape(), n_ctx, rows));
  }

 private:
  fd::CacheShape shape_for(const Method& method) const {
    return with_sinks(with_formats(model.shape(), method.cache), method.sinks);
  }
  Cache make_cache(const Method& method) const { return Cache(shape_for(method), method.n_ctx); }
  /// Of the caches of a text.
  double bytes(const Models& models, const Method& method) const {
    return Cache::full_bytes(shape_for(method), method.n_ctx) + draft_cache_bytes(models, method);
  }

  std::string isa_;
};

}  // namespace

std::unique_ptr<Target> on_cpu(Model model, std::string isa) {
  return std::make_unique<CpuTarget>(std::move(model), std::move(isa));
}

std::unique_ptr<Session> make_session(Models& models, const Method& method) {
  return models.target.make_session(models, method);
}

}  // namespace cli
