#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <span>

#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/types.hpp>

#include "usage.hpp"

namespace cli {

/// Writers of texts that share passes of the models. What a writer's drafters learn from a text they
/// use for its next one.
class Together {
 public:
  using Emit = std::function<void(const fd::Emitted&)>;

  virtual ~Together() = default;

  /// The text is written by the steps that follow. The writer is one that has no text, or whose text is
  /// over. @errors as fd::Batch::generate
  virtual std::future<fd::Result> generate(int writer, std::span<const fd::TokenId> prompt,
                                           const fd::Options& options, Emit emit) = 0;
  /// A turn of all texts. @errors as fd::Batch::step
  virtual void step() = 0;

  /// All final tokens of a writer's text. What the next one shares with them is not read again.
  virtual std::span<const fd::TokenId> tokens(int writer) const = 0;

  /// From now on, look for what a prompt begins with among the texts that were kept, whoever wrote them.
  /// @param bytes  for all of them
  virtual void use_store(std::size_t bytes) = 0;
  /// Keep the text of a writer, which is over. Nothing where there is no store.
  virtual void keep(int writer) = 0;
};

}  // namespace cli
