#pragma once

#include <memory>
#include <string>
#include <utility>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>

#include "cache_format.hpp"

namespace cli {

class Session;
struct Method;
struct Models;

/// The model whose text the program writes, wherever it runs.
class Target {
 public:
  virtual ~Target() = default;
  virtual const fd::Tokenizer& tokenizer() const = 0;
  virtual const fd::ModelConfig& config() const = 0;
  virtual fd::CacheShape shape() const = 0;
  virtual fd::TargetInfo info() const = 0;
  /// What its numbers depend on besides weights and formats: an instruction set, or a device.
  virtual std::string arithmetic() const = 0;
  /// @errors what the cache and the drafters throw
  virtual std::unique_ptr<Session> make_session(Models& models, const Method& method) = 0;
};

/// What is the same on all backends. @tparam M  a Model
template <typename M>
class TargetOn : public Target {
 public:
  explicit TargetOn(M loaded) : model(std::move(loaded)) {}
  const fd::Tokenizer& tokenizer() const override { return model.tokenizer(); }
  const fd::ModelConfig& config() const override { return model.config(); }
  fd::CacheShape shape() const override { return model.shape(); }
  fd::TargetInfo info() const override { return model.info(); }

  M model;
};

/// Refuse what the GPU that is current cannot run, before anything is read.
/// @param config  with the vocabulary's size
/// @param formats  of the cache, the same for keys and values
/// @param n_ctx   of the cache, as far as it is known before loading
/// @param pass_bytes  of a pass, but for attention
/// @errors kDevice where there is no GPU, or the program was built without CUDA; kOutOfMemory
void require_gpu(const fd::Gguf& file, const fd::ModelConfig& config, fd::RowFormats formats,
                 int n_ctx, double pass_bytes);

/// A target in the memory of the GPU that is current.
/// @errors kDevice, kOutOfMemory, what fd::load throws
std::unique_ptr<Target> load_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options);

}  // namespace cli
