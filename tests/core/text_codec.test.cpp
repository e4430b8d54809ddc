#include <foredraft/core/text_codec.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a codec is any tokenizer's two functions") {
  fd::TextCodec codec{.n_vocab = 256};
  CHECK(!codec.bos);
  CHECK(!codec.piece);
  codec.piece = [](fd::TokenId id) { return std::string(1, static_cast<char>(id)); };
  codec.encode = [](std::string_view text) {
    std::vector<fd::TokenId> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  };
  std::string text;
  for (const fd::TokenId id : codec.encode("a\xff ")) text += codec.piece(id);
  CHECK(text == "a\xff ");
}
