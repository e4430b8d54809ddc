#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>
#include <foredraft/model/model.hpp>

#include "cache_format.hpp"
#include "target.hpp"
#include "usage.hpp"

namespace cli {

using Model = fd::Model<fd::Cpu>;

struct ModelSettings {
  std::filesystem::path target;
  std::filesystem::path draft = {};  ///< empty: none
  /// What becomes of it while it is loaded; absent: what suits its file.
  std::optional<fd::LoadOptions> draft_options = {};
  int threads = 0;  ///< 0: as many as the machine grants
  std::optional<fd::cpu::Isa> isa = {};
  int n_ctx = 0;  ///< of the caches, as far as it is known before loading; 0: the default
  fd::RowFormats cache = {};        ///< of the target
  fd::RowFormats draft_cache = {};  ///< of the draft model
  /// Told of the target before any weight is read; may throw. Absent: nothing is checked.
  std::function<void(const fd::ModelConfig&)> check = {};
  bool keep_packed = false;   ///< map the models from packed files; one that is changed never
  int sinks = 0;              ///< as in Method
  int rows = 0;               ///< of a pass at most; 0: as a decoder reads a prompt
  bool on_gpu = false;        ///< the target
  bool draft_on_gpu = false;  ///< the draft model

  /// A model runs on the processor.
  bool on_cpu() const { return !on_gpu || (!draft.empty() && !draft_on_gpu); }
};

/// A target on the processor.
std::unique_ptr<Target> on_cpu(Model model, std::string isa);
/// Likewise a model that drafts.
std::unique_ptr<Draft> draft_on_cpu(Model model, std::string isa);

/// What a command runs: models on the processor, whose threads they share, or on a GPU. It keeps its
/// address.
struct Models {
  /// @errors what fd::load throws; kOutOfMemory before anything is read where it cannot fit
  explicit Models(const ModelSettings& settings);
  ~Models();

  /// Context of the draft model where the target has `n_ctx`. It need not reach as far: where it
  /// ends, drafting ends.
  int draft_context(int n_ctx) const;

  /// Whether the draft model reads the target's tokens; where not, drafts have to be translated.
  bool same_vocabulary() const;

  /// Says to stderr what a user may want to know of the draft model before drafts are made.
  void print_note() const;

  /// Of the instruction set, or the device, that the target runs with.
  std::string isa() const { return target.arithmetic(); }

  /// The target itself, for what runs on the processor alone; null where it is elsewhere.
  Model* target_on_cpu() const;

  fd::Cpu cpu;
  std::unique_ptr<Draft> draft;  // null: none. Before the target: loaded in this order

 private:
  std::unique_ptr<Target> target_;

 public:
  Target& target;
  double load_seconds = 0;

 private:
  struct Files;
  Models(const ModelSettings& settings, const Files& files);
};

/// Another copy of a draft model on the processor, changed as `options` say.
/// @errors what fd::load throws; kOutOfMemory before anything is read where it cannot fit
std::unique_ptr<Draft> load_draft_copy(Models& models, const std::filesystem::path& file,
                                       const fd::LoadOptions& options);

}  // namespace cli
