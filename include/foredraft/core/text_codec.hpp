#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// From text to tokens and back, of any tokenizer: for a drafter whose model reads other tokens than
/// the target. The functions may be called from the thread that drafts, and live as long as the
/// drafter.
struct TextCodec {
  int n_vocab = 0;
  /// Bytes of a token, control tokens by their names.
  std::function<std::string(TokenId)> piece = {};
  /// Tokens of any bytes, as they stand in the middle of a text: nothing is put before them, and names
  /// of control tokens are these tokens.
  std::function<std::vector<TokenId>(std::string_view)> encode = {};
  /// False for control tokens, whose names are no text; empty: there are none.
  std::function<bool(TokenId)> is_text = {};
  std::optional<TokenId> bos = {};  ///< with which every text begins, if one does
};

}  // namespace foredraft::inline v0
