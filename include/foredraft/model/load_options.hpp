#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// Called as progress(bytes done, bytes in all) while weights are packed.
using LoadProgress = std::function<void(std::size_t, std::size_t)>;

/// What becomes of a model on its way from the file into memory. By default: nothing, it computes
/// what its file says.
///
/// The rest makes a draft model cheaper. It then proposes other tokens now and then; which tokens
/// stand is decided by the target, so the text, or its law, is the same (docs/design/drafting.md).
struct LoadOptions {
  /// Weight matrices become kQ4_0 or kQ8_0 wherever that makes them smaller. Norms, biases and the
  /// embedding table stay; where the table is the head too, the head is a requantized copy of it.
  std::optional<TensorType> requantize = {};

  /// Tokens that the head knows, at least all control, user-defined and end tokens and one more;
  /// all others have logit -inf. 0: the whole vocabulary.
  int head_tokens = 0;

  /// How often each token occurs in some text, by id; ids beyond its end count as 0. The head keeps
  /// the most frequent ones. Empty: by the tokenizer's order (most_frequent_tokens).
  std::vector<std::int64_t> token_counts = {};

  LoadProgress progress = {};
};

}  // namespace foredraft::inline v0
