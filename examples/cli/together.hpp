#pragma once

#include <future>
#include <span>

#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/types.hpp>

namespace cli {

/// Writers of texts that share passes of the models. What a writer's drafters learn from a text they
/// use for its next one.
class Together {
 public:
  virtual ~Together() = default;

  /// The text is written by the steps that follow. The writer is one that has no text, or whose text is
  /// over. @errors as fd::Batch::generate
  virtual std::future<fd::Result> generate(int writer, std::span<const fd::TokenId> prompt,
                                           const fd::Options& options) = 0;
  /// A turn of all texts. @errors as fd::Batch::step
  virtual void step() = 0;
};

}  // namespace cli
