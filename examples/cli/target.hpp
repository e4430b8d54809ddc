#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>

#include "cache_format.hpp"

namespace cli {

class Draft;
class Passes;
class Session;
class Together;
struct Method;
struct Models;

/// A model, wherever it runs.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;
  virtual const fd::Tokenizer& tokenizer() const = 0;
  virtual const fd::ModelConfig& config() const = 0;
  virtual fd::CacheShape shape() const = 0;
  virtual fd::TargetInfo info() const = 0;
  /// What its numbers depend on besides weights and formats: an instruction set, or a device.
  virtual std::string arithmetic() const = 0;
};

/// The model whose text the program writes.
class Target : public LoadedModel {
 public:
  /// @errors what the cache and the drafters throw
  virtual std::unique_ptr<Session> make_session(Models& models, const Method& method) = 0;
  /// Writers that share passes. @errors likewise
  virtual std::unique_ptr<Together> make_together(Models& models, const Method& method,
                                                  int writers) = 0;
  /// Over a cache of their own. @param rows  of a pass at most. @errors what the cache throws
  virtual std::unique_ptr<Passes> make_passes(int n_ctx, int rows) = 0;
};

/// What is the same on all backends.
/// @tparam M     a Model
/// @tparam Role  Target or Draft
template <typename M, typename Role>
class ModelOn : public Role {
 public:
  explicit ModelOn(M loaded) : model(std::move(loaded)) {}
  const fd::Tokenizer& tokenizer() const override { return model.tokenizer(); }
  const fd::ModelConfig& config() const override { return model.config(); }
  fd::CacheShape shape() const override { return model.shape(); }
  fd::TargetInfo info() const override { return model.info(); }

  M model;
};

/// What a model is to have in the memory of a GPU.
struct GpuNeed {
  fd::ModelConfig config = {};  ///< with the vocabulary's size
  double weight_bytes = 0;      ///< as a GPU holds them
  double pass_bytes = 0;        ///< but for attention and recurrent layers
  fd::RowFormats formats = {};
  int n_ctx = 0;        ///< of the cache, as far as it is known before loading
  int sinks = 0;        ///< as in Method
  int rows = 0;         ///< of a pass at most; 0: as a decoder reads a prompt
  std::string of = {};  ///< "" or "-draft": what the options of the model end in
};

/// "--device cpu", or what it takes for all of several models.
inline std::string without_gpu(std::span<const GpuNeed> needs) {
  std::string options;
  for (const GpuNeed& need : needs) {
    options += (options.empty() ? "--device" : " and --device") + need.of + " cpu";
  }
  return options;
}

/// Refuse what the GPU that is current has no room for, before anything is read.
/// @param needs  of all models that are to run there, at least one
/// @errors kDevice where there is no GPU, or the program was built without CUDA; kOutOfMemory
void require_gpu(std::span<const GpuNeed> needs);

/// A target in the memory of the GPU that is current.
/// @errors kDevice, kOutOfMemory, what fd::load throws
std::unique_ptr<Target> load_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options);
/// Likewise a model that drafts.
std::unique_ptr<Draft> load_draft_on_gpu(const fd::Gguf& file, const fd::LoadOptions& options);

}  // namespace cli
