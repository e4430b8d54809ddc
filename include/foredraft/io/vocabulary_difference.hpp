#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/quoted.hpp>
#include <foredraft/io/vocabulary.hpp>

namespace foredraft::inline v0 {

/// The first id that does not stand for the same bytes in two vocabularies.
struct VocabularyDifference {
  TokenId id = 0;
  std::optional<std::string> target;  ///< piece of the target; nothing where it ends before
  std::optional<std::string> draft;   ///< piece of the draft model

  std::string describe() const {
    const auto name = [](const auto& piece) {
      return piece ? in_quotes(*piece) : std::string("nothing");
    };
    return "token " + std::to_string(id) + ": " + name(target) + " in the target, " + name(draft) +
           " in the draft model";
  }
};

/// Ids in use: all but the unused tokens at the end, with which tables are padded to round sizes.
inline std::size_t used_size(const Vocabulary& vocabulary) {
  std::size_t n_used = vocabulary.size();
  while (n_used > 0 && vocabulary.kind(static_cast<TokenId>(n_used - 1)) == TokenKind::kUnused)
    --n_used;
  return n_used;
}

/// Where two vocabularies differ; nothing where a draft model with the one can draft for a target
/// with the other. The pieces are compared, names of control tokens included: equal sizes say
/// nothing.
///
/// Padding: tokens of kind kUnused at the very end may differ, in their names and in their number
/// (models of one family are padded to different sizes). Everywhere else each id must be there in
/// both with the same piece. A drafter must still not propose an id that the target does not have.
/// @cost O(bytes of both)
inline std::optional<VocabularyDifference> first_difference(const Vocabulary& target,
                                                            const Vocabulary& draft) {
  const std::size_t n_target = used_size(target), n_draft = used_size(draft);
  for (std::size_t i = 0; i < std::max(n_target, n_draft); ++i) {
    const auto id = static_cast<TokenId>(i);
    VocabularyDifference difference;
    difference.id = id;
    if (i < target.size()) difference.target = target.piece(id, true);
    if (i < draft.size()) difference.draft = draft.piece(id, true);
    // Where only one of them is in use, equal names of the other's padding do not help.
    const bool both_used = i < n_target && i < n_draft;
    if (!both_used || difference.target != difference.draft) return difference;
  }
  return std::nullopt;
}

/// @errors kVocabularyMismatch, with both pieces of the first difference
inline void require_same_vocabulary(const Vocabulary& target, const Vocabulary& draft) {
  if (const auto difference = first_difference(target, draft)) {
    throw Error(ErrorCode::kVocabularyMismatch, difference->describe(), "the same piece in both",
                "use a draft model of the same family, or draft without a model");
  }
}

}  // namespace foredraft::inline v0
