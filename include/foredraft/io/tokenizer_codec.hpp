#pragma once

#include <string>
#include <string_view>

#include <foredraft/core/text_codec.hpp>
#include <foredraft/io/tokenizer.hpp>

namespace foredraft::inline v0 {

/// A tokenizer as a drafter sees it. It is referred to.
inline TextCodec codec_of(const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  TextCodec codec;
  codec.n_vocab = static_cast<int>(vocabulary.size());
  codec.piece = [&tokenizer](TokenId id) { return std::string(tokenizer.piece(id, true)); };
  codec.is_text = [&vocabulary](TokenId id) { return vocabulary.is_text(id); };
  codec.encode = [&tokenizer](std::string_view text) {
    return tokenizer.encode(text, {.parse_special = true, .continues = true});
  };
  if (vocabulary.adds_bos()) codec.bos = vocabulary.bos();
  return codec;
}

}  // namespace foredraft::inline v0
