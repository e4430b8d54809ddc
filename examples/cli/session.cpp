#include "session.hpp"

#include <string>

#include <foredraft/cache/linear.hpp>
#include <foredraft/decoder.hpp>

#include "memory.hpp"

namespace cli {

namespace {

template <typename T>
class SessionIn final : public Session {
 public:
  SessionIn(Models& models, const Method& method)
      : decoder_(models.target, fd::LinearCache<T>(models.target.shape(), method.n_ctx),
                 make_drafter(models, method), method.rule.make()) {}

  fd::Result generate(std::span<const fd::TokenId> prompt, const fd::Options& options,
                      const Emit& emit) override {
    return decoder_.generate(prompt, options, emit);
  }

 private:
  fd::Decoder<Model, fd::LinearCache<T>, fd::Chain<>, fd::AnyAcceptance> decoder_;
};

}  // namespace

std::unique_ptr<Session> make_session(Models& models, const Method& method) {
  return with_cache_format(method.cache_format, [&]<typename T>(T) -> std::unique_ptr<Session> {
    // Looked at when the models were loaded, too, but there the context was known only with -c.
    double bytes = fd::LinearCache<T>::full_bytes(models.target.shape(), method.n_ctx);
    if (models.draft) {
      bytes += fd::LinearCache<fd::f16>::full_bytes(models.draft->shape(),
                                                    models.draft_context(method.n_ctx));
    }
    require_memory(bytes, "a context of " + std::to_string(method.n_ctx),
                   "a smaller context (-c), or fewer tokens (-n)");
    return std::make_unique<SessionIn<T>>(models, method);
  });
}

}  // namespace cli
