#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <typeinfo>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Which piece each id stands for. It refers to whoever made it.
struct VocabularyInfo {
  int size = 0;
  int used =
      0;  ///< ids in use: all but the unused tokens at the end, which pad tables to round sizes
  std::function<std::string(TokenId)> piece = {};  ///< control tokens by name; empty: not known
};

/// What a target says of itself to a drafter that is attached to it. 0: not known.
struct TargetInfo {
  int n_vocab = 0;
  VocabularyInfo vocabulary = {};
  int d_model = 0;                        ///< of the taps
  int n_layers = 0;                       ///< that can be tapped
  const std::type_info* cache = nullptr;  ///< the type of what Context::cache will refer to
};

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

/// Where two vocabularies differ; nothing where a draft model with the one can draft for a target
/// with the other. The pieces are compared, names of control tokens included: equal sizes say
/// nothing.
///
/// Padding: unused tokens at the very end may differ, in their names and in their number (models of
/// one family are padded to different sizes). Everywhere else each id must be there in both with
/// the same piece. A drafter must still not propose an id that the target does not have.
/// @cost O(bytes of both)
inline std::optional<VocabularyDifference> first_difference(const VocabularyInfo& target,
                                                            const VocabularyInfo& draft) {
  for (TokenId id = 0; id < std::max(target.used, draft.used); ++id) {
    VocabularyDifference difference;
    difference.id = id;
    if (id < target.size) difference.target = target.piece(id);
    if (id < draft.size) difference.draft = draft.piece(id);
    // Where only one of them is in use, equal names of the other's padding do not help.
    const bool both_used = id < target.used && id < draft.used;
    if (!both_used || difference.target != difference.draft) return difference;
  }
  return std::nullopt;
}

/// @errors kVocabularyMismatch, with both pieces of the first difference
inline void require_same_vocabulary(const VocabularyInfo& target, const VocabularyInfo& draft) {
  if (const auto difference = first_difference(target, draft)) {
    throw Error(ErrorCode::kVocabularyMismatch, difference->describe(), "the same piece in both",
                "use a draft model of the same family, or draft without a model");
  }
}

/// A model of `draft` may draft for a target: the same pieces, or as many where they are not known.
/// @errors kVocabularyMismatch
inline void require_same_vocabulary(const TargetInfo& target, const TargetInfo& draft) {
  if (target.vocabulary.piece && draft.vocabulary.piece) {
    require_same_vocabulary(target.vocabulary, draft.vocabulary);
  } else if (target.n_vocab != draft.n_vocab) {
    throw Error(ErrorCode::kVocabularyMismatch,
                "a draft vocabulary of " + std::to_string(draft.n_vocab),
                std::to_string(target.n_vocab), "draft with a model of the same family");
  }
}

}  // namespace foredraft::inline v0
