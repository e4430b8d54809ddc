#pragma once

#include <span>

#include <foredraft/core/scores.hpp>

#include "cache_format.hpp"
#include "models.hpp"

namespace cli {

/// The cache of passes that no decoder makes: those of `logits` and `bench`.
using PlainCache = Cache;

/// Forward `tokens` behind what the cache holds, and commit them. The last `n_read` rows are wanted
/// as `need` says, and `scores` has them.
void forward(Model& model, PlainCache& cache, std::span<const fd::TokenId> tokens,
             std::size_t n_read, fd::RowNeed need, fd::Scores& scores);

}  // namespace cli
