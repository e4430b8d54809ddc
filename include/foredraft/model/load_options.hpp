#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// Called as progress(bytes done, bytes in all) while weights are packed.
using LoadProgress = std::function<void(std::size_t, std::size_t)>;

/// Called with something that a user may want to know, and that does not keep a model from loading.
using LoadNote = std::function<void(const std::string&)>;

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

  /// Files that keep the weights as the processor backend packs them, so that the next start maps
  /// one of them instead of packing: tried in this order, and the first that can be written is made
  /// where none fits (docs/design/decisions/0006-packed-weights-are-mapped.md). Empty: none is read
  /// or written. Not for weights that `requantize` or `head_tokens` change.
  /// packed_file_places() names the usual ones.
  std::vector<std::filesystem::path> packed_files = {};

  LoadProgress progress = {};

  /// Told, in one line, when a packed file is written and why, or why none can be.
  LoadNote note = {};
};

}  // namespace foredraft::inline v0
