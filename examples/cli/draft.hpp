#pragma once

#include <memory>

#include "models.hpp"
#include "speculation.hpp"
#include "target.hpp"

namespace cli {

/// The model that drafts for the target.
class Draft : public LoadedModel {
 public:
  virtual bool on_gpu() const = 0;
  /// The model itself, for whoever makes its passes; null where it is elsewhere.
  virtual Model* on_cpu() { return nullptr; }
  /// @errors kOutOfMemory; kVocabularyMismatch; UsageError where it cannot draft as `method` says
  virtual TreeDrafter make_drafter(Models& models, const Method& method) = 0;
};

/// Of its cache, where that lies in the memory of the processor; else 0.
double draft_cache_bytes(const Models& models, const Method& method);

}  // namespace cli
