#pragma once

#include <optional>
#include <string>

#include <foredraft/core/target_info.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// A vocabulary as others compare it; it must live as long as the answer.
inline VocabularyInfo vocabulary_info(const Vocabulary& vocabulary) {
  int used = static_cast<int>(vocabulary.size());
  while (used > 0 && vocabulary.kind(used - 1) == TokenKind::kUnused) --used;
  return {static_cast<int>(vocabulary.size()), used,
          [&vocabulary](TokenId id) { return std::string(vocabulary.piece(id, true)); }};
}

inline std::optional<VocabularyDifference> first_difference(const Vocabulary& target,
                                                            const Vocabulary& draft) {
  return first_difference(vocabulary_info(target), vocabulary_info(draft));
}

/// @errors kVocabularyMismatch, with both pieces of the first difference
inline void require_same_vocabulary(const Vocabulary& target, const Vocabulary& draft) {
  require_same_vocabulary(vocabulary_info(target), vocabulary_info(draft));
}

}  // namespace foredraft::inline v0
