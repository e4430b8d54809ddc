#pragma once

#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/vocabulary_data.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Small vocabularies in memory, for tests that must not need a model file.
namespace toy {

namespace fd = foredraft;

/// All 256 bytes at the ids of their values, then the results of `merges` in their order, then what
/// add() appends.
inline fd::VocabularyData byte_level(const std::vector<std::string>& merges) {
  fd::VocabularyData data;
  data.type = fd::VocabularyType::kByteLevel;
  data.pre = "gpt-2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    data.texts.push_back(fd::kByteAlphabet.write(static_cast<unsigned char>(byte)));
  }
  data.merges = merges;
  for (std::string merge : merges) data.texts.push_back(merge.erase(merge.find(' '), 1));
  data.kinds.assign(data.texts.size(), fd::TokenKind::kNormal);
  return data;
}

/// <unk>, <s>, </s>, then the 256 byte tokens from id 3, then what add() appends.
inline fd::VocabularyData sentence_piece() {
  fd::VocabularyData data;
  data.type = fd::VocabularyType::kSentencePiece;
  data.texts = {"<unk>", "<s>", "</s>"};
  data.kinds = {fd::TokenKind::kUnknown, fd::TokenKind::kControl, fd::TokenKind::kControl};
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    data.texts.push_back({'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'});
    data.kinds.push_back(fd::TokenKind::kByte);
  }
  data.scores.assign(data.texts.size(), 0.0F);
  data.unknown = 0;
  data.bos = 1;
  data.eos = 2;
  data.add_bos = true;
  data.add_space_prefix = true;
  return data;
}

/// Appends one token and returns its id.
inline fd::TokenId add(fd::VocabularyData& data, std::string_view text,
                       fd::TokenKind kind = fd::TokenKind::kNormal, float score = 0.0F) {
  data.texts.emplace_back(text);
  data.kinds.push_back(kind);
  if (!data.scores.empty()) data.scores.push_back(score);
  return static_cast<fd::TokenId>(data.texts.size() - 1);
}

}  // namespace toy
