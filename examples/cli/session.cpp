#include "session.hpp"

#include <string>

#include "cache_format.hpp"
#include "draft.hpp"
#include "memory.hpp"
#include "passes_in.hpp"
#include "session_in.hpp"
#include "target.hpp"

namespace cli {

namespace {

class CpuTarget final : public ModelOn<Model, Target> {
 public:
  CpuTarget(Model loaded, std::string isa) : ModelOn(std::move(loaded)), isa_(std::move(isa)) {}

  std::string arithmetic() const override { return isa_; }

  std::unique_ptr<Session> make_session(Models& models, const Method& method) override {
    const fd::CacheShape shape =
        with_sinks(with_formats(model.shape(), method.cache), method.sinks);
    // Looked at when the models were loaded, too, but there the context was known only with -c.
    require_memory(Cache::full_bytes(shape, method.n_ctx) + draft_cache_bytes(models, method),
                   "a context of " + std::to_string(method.n_ctx),
                   "a smaller context (-c), or fewer tokens (-n)");
    return session_over(model, Cache(shape, method.n_ctx), models, method);
  }

  std::unique_ptr<Passes> make_passes(int n_ctx, int rows) override {
    return std::make_unique<PassesIn<Model, Cache>>(model, Cache(model.shape(), n_ctx, rows));
  }

 private:
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
