#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/text_codec.hpp>

/// A tokenizer that takes the longest piece that fits, from the left; bytes that none fits are left
/// out. Its pieces may be empty or alike.
inline foredraft::TextCodec spelled_codec(std::vector<std::string> pieces) {
  foredraft::TextCodec codec;
  codec.n_vocab = static_cast<int>(pieces.size());
  codec.piece = [pieces](foredraft::TokenId id) { return pieces[foredraft::idx(id)]; };
  codec.encode = [pieces = std::move(pieces)](std::string_view text) {
    std::vector<foredraft::TokenId> tokens;
    while (!text.empty()) {
      std::size_t best = pieces.size();
      std::size_t length = 0;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (pieces[i].size() <= length || !text.starts_with(pieces[i])) continue;
        best = i;
        length = pieces[i].size();
      }
      if (best < pieces.size()) tokens.push_back(static_cast<foredraft::TokenId>(best));
      text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return tokens;
  };
  return codec;
}
