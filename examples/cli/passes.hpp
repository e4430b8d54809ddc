#pragma once

#include <cstddef>
#include <span>

#include <foredraft/core/scores.hpp>
#include <foredraft/core/types.hpp>

#include "usage.hpp"

namespace cli {

/// Passes that no decoder makes, those of `logits` and `bench`, over a target and a cache in f16.
class Passes {
 public:
  virtual ~Passes() = default;
  /// Forward `tokens` behind what the cache holds, and commit them. The last `n_read` rows are
  /// wanted as `need` says, and `scores` has them.
  virtual void forward(std::span<const fd::TokenId> tokens, std::size_t n_read, fd::RowNeed need,
                       fd::Scores& scores) = 0;
  /// Begin a text anew.
  virtual void clear() = 0;
};

}  // namespace cli
