#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/core/scores.hpp>
#include <foredraft/core/text_codec.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// The tokens that two vocabularies have in common: those that stand for the same bytes, one for one.
/// Of several tokens of one vocabulary that stand for the same bytes the lowest id counts.
/// @cost O(bytes of both); 4 bytes a token of each
class VocabularyMap {
 public:
  static constexpr TokenId kNone = -1;

  VocabularyMap(const TextCodec& target, const TextCodec& draft)
      : to_target_(idx(draft.n_vocab), kNone), to_draft_(idx(target.n_vocab), kNone) {
    std::unordered_map<std::string, TokenId> ids;
    for (TokenId id = 0; id < target.n_vocab; ++id) ids.emplace(target.piece(id), id);
    ids.erase("");
    for (TokenId id = 0; id < draft.n_vocab; ++id) {
      const auto found = ids.find(draft.piece(id));
      if (found == ids.end() || to_draft_[idx(found->second)] != kNone) continue;
      to_target_[idx(id)] = found->second;
      to_draft_[idx(found->second)] = id;
      ++size_;
    }
  }

  /// Tokens in common.
  int size() const noexcept { return size_; }
  TokenId to_target(TokenId draft) const noexcept { return at(to_target_, draft); }
  TokenId to_draft(TokenId target) const noexcept { return at(to_draft_, target); }

  /// A row of the draft model's logits as one of the target's vocabulary: -inf for what the draft
  /// model does not know. So a law made of it is one of the target's tokens, of which the draft model
  /// draws none that it cannot spell.
  /// @shape logits [n_vocab of the draft model]
  /// @cost O(n_vocab) of both
  void translate(std::span<const float> logits, int n_vocab, Scores& scores) {
    scores.reset({RowNeed::kLogits, {}}, 1, n_vocab);
    row_.assign(idx(n_vocab), -std::numeric_limits<float>::infinity());
    for (std::size_t id = 0; id < std::min(logits.size(), to_target_.size()); ++id) {
      const TokenId token = to_target_[id];
      if (token >= 0 && token < n_vocab) row_[idx(token)] = logits[id];
    }
    scores.set_row(0, row_);
  }

 private:
  static TokenId at(const std::vector<TokenId>& ids, TokenId id) noexcept {
    return id >= 0 && idx(id) < ids.size() ? ids[idx(id)] : kNone;
  }

  std::vector<TokenId> to_target_;  // [n_vocab of the draft model]
  std::vector<TokenId> to_draft_;   // [n_vocab of the target]
  int size_ = 0;
  std::vector<float> row_;  // a buffer
};

}  // namespace foredraft::inline v0
