#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/dimension.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/string_table.hpp>
#include <foredraft/io/vocabulary_data.hpp>

namespace foredraft::inline v0 {

/// The tokens of a model: what each id stands for. Immutable and a value; many threads may read
/// one.
///
/// Texts may repeat (files from Google do). Where several tokens have one text, find() prefers one
/// that text can produce, then the highest id.
class Vocabulary {
 public:
  /// @errors kCorruptFile: lengths that disagree, a merge of unknown tokens, a bad byte token or
  ///   score; kTokenOutOfRange: a declared id outside the vocabulary
  explicit Vocabulary(VocabularyData data)
      : type_(data.type),
        kinds_(std::move(data.kinds)),
        scores_(std::move(data.scores)),
        pre_(std::move(data.pre)),
        chat_template_(std::move(data.chat_template)),
        bos_(data.bos),
        eos_(data.eos),
        unknown_(data.unknown),
        padding_(data.padding),
        adds_bos_(data.add_bos),
        adds_space_prefix_(data.add_space_prefix) {
    check_lengths(data.texts.size());
    for (const auto& id : {data.bos, data.eos, data.eot, data.eom, data.unknown, data.padding}) {
      if (id) require_in_range(*id);
    }
    if (adds_bos_ && !bos_) {
      throw Error(ErrorCode::kCorruptFile, "a vocabulary that adds a BOS token and has none",
                  "bos_token_id", kRemedy);
    }
    load_texts(data.texts);
    load_merges(data.merges);
    if (type_ != VocabularyType::kByteLevel) require_fallback();
    load_ends({data.eos, data.eot, data.eom});
    for (const TokenId id : data.suppressed) require_in_range(id);
    suppressed_ = std::move(data.suppressed);
  }

  VocabularyType type() const noexcept { return type_; }
  std::size_t size() const noexcept { return kinds_.size(); }
  bool contains(TokenId id) const noexcept { return id >= 0 && idx(id) < size(); }

  /// The bytes that the token stands for. Control tokens, and others that are not text, are empty
  /// unless `special` asks for their names.
  /// @errors kTokenOutOfRange
  std::string_view piece(TokenId id, bool special = false) const {
    return !special && !is_text(id) ? std::string_view() : pieces_[index(id)];
  }

  /// The token as the file spells it.
  /// @errors kTokenOutOfRange
  std::string_view text(TokenId id) const { return texts_[index(id)]; }

  TokenKind kind(TokenId id) const { return kinds_[index(id)]; }

  /// Whether the token stands for text: text can produce it, and it can be shown.
  bool is_text(TokenId id) const {
    const TokenKind kind = kinds_[index(id)];
    return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined ||
           kind == TokenKind::kByte;
  }

  /// 0 where the vocabulary has no scores.
  float score(TokenId id) const { return scores_.empty() ? 0.0F : scores_[index(id)]; }

  /// Whether a text ends with this token: the declared EOS, EOT and EOM, and control tokens with a
  /// well-known name such as `<|im_end|>`. False for ids outside the vocabulary.
  bool is_end(TokenId id) const noexcept {
    return std::binary_search(ends_.begin(), ends_.end(), id);
  }
  std::span<const TokenId> ends() const noexcept { return ends_; }  // ascending

  /// Tokens that the model may not write, such as the marks of images in Gemma 4.
  std::span<const TokenId> suppressed() const noexcept { return suppressed_; }

  std::optional<TokenId> find(std::string_view text) const noexcept {
    return index_.find(texts_, text);
  }

  /// The token of one byte; nothing where the vocabulary has none.
  std::optional<TokenId> byte_token(unsigned char byte) const noexcept {
    return bytes_[byte] < 0 ? std::nullopt : std::optional<TokenId>(bytes_[byte]);
  }

  /// By rank: the first is applied first.
  std::span<const Merge> merges() const noexcept { return merges_; }

  std::optional<TokenId> bos() const noexcept { return bos_; }
  std::optional<TokenId> eos() const noexcept { return eos_; }
  std::optional<TokenId> unknown() const noexcept { return unknown_; }
  std::optional<TokenId> padding() const noexcept { return padding_; }
  /// Whether a prompt begins with bos(), which is then there.
  bool adds_bos() const noexcept { return adds_bos_; }
  bool adds_space_prefix() const noexcept { return adds_space_prefix_; }
  const std::string& pre() const noexcept { return pre_; }
  const std::string& chat_template() const noexcept { return chat_template_; }
  std::size_t longest_text() const noexcept { return longest_text_; }  ///< in bytes, among find()'s

 private:
  /// Of a token that SentencePieceEncoder may form: it looks up each part of the text that could be
  /// one, by its bytes. Real ones have up to some hundred.
  static constexpr std::size_t kLongestText = 1024;
  static constexpr std::string_view kRemedy =
      "the file was converted wrongly: convert it again, or fetch another";

  std::size_t index(TokenId id) const {
    require_in_range(id);
    return idx(id);
  }

  void require_in_range(TokenId id) const {
    if (contains(id)) return;
    throw Error(ErrorCode::kTokenOutOfRange, "token " + std::to_string(id),
                "0 to " + std::to_string(size() - 1));
  }

  void check_lengths(std::size_t n_vocab) {
    if (n_vocab == 0 || n_vocab > std::size_t{Dim::kMost}) {
      throw Error(ErrorCode::kCorruptFile, "a vocabulary of " + std::to_string(n_vocab) + " tokens",
                  "1 to " + std::to_string(Dim::kMost), kRemedy);
    }
    if (kinds_.empty()) kinds_.assign(n_vocab, TokenKind::kNormal);
    require_length("token types", kinds_.size(), n_vocab);
    const bool ranked_by_score = type_ == VocabularyType::kSentencePiece;
    if (ranked_by_score || !scores_.empty()) require_length("scores", scores_.size(), n_vocab);
    for (const float score : scores_) {
      if (std::isnan(score))
        throw Error(ErrorCode::kCorruptFile, "a score that is NaN", "a number", kRemedy);
    }
  }

  static void require_length(std::string_view what, std::size_t found, std::size_t n_vocab) {
    if (found == n_vocab) return;
    throw Error(ErrorCode::kCorruptFile, std::to_string(found) + " " + std::string(what),
                std::to_string(n_vocab) + ", one for each token", kRemedy);
  }

  void load_texts(const std::vector<std::string>& texts) {
    std::vector<TokenId> order, text_tokens;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      texts_.push_back(texts[i]);
      pieces_.push_back(decoded(texts[i], id));
      (is_text(id) ? text_tokens : order).push_back(id);
      if (is_text(id)) longest_text_ = std::max(longest_text_, texts[i].size());
    }
    if (type_ == VocabularyType::kSentencePiece && longest_text_ > kLongestText) {
      throw Error(ErrorCode::kUnsupportedModel,
                  "a token of " + std::to_string(longest_text_) + " bytes",
                  "at most " + std::to_string(kLongestText), "choose another model");
    }
    order.insert(order.end(), text_tokens.begin(), text_tokens.end());
    index_ = StringIndex(texts_, order);
    if (type_ != VocabularyType::kByteLevel) return;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto id = find(kByteAlphabet.write(static_cast<unsigned char>(byte)));
      if (id && is_text(*id)) bytes_[byte] = *id;
    }
  }

  /// Only normal tokens are written in the alphabet or with marks for spaces; names stand as they
  /// are.
  std::string decoded(std::string_view text, TokenId id) {
    if (kind(id) == TokenKind::kByte) {
      const unsigned char byte = parse_byte_token(text);
      if (type_ != VocabularyType::kByteLevel) bytes_[byte] = id;
      return std::string(1, static_cast<char>(byte));
    }
    if (kind(id) != TokenKind::kNormal) return std::string(text);
    if (type_ == VocabularyType::kByteLevel) return kByteAlphabet.read(text);
    std::string piece;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t mark = std::min(text.find(kSpaceMark, at), text.size());
      piece += text.substr(at, mark - at);
      if (mark < text.size()) piece += ' ';
      at = mark + kSpaceMark.size();
    }
    return piece;
  }

  void load_merges(const std::vector<std::string>& merges) {
    if (merges.size() > std::size_t{Dim::kMost}) {
      throw Error(ErrorCode::kCorruptFile, std::to_string(merges.size()) + " merges",
                  "at most " + std::to_string(Dim::kMost), kRemedy);
    }
    merges_.reserve(merges.size());
    for (const std::string& merge : merges) {
      // None in the alphabet, and marks stand for those of texts.
      const std::size_t space = std::min(merge.find(' '), merge.size());
      const std::string_view left = std::string_view(merge).substr(0, space);
      const std::string_view right =
          std::string_view(merge).substr(std::min(space + 1, merge.size()));
      const auto left_id = find(left), right_id = find(right);
      const auto result = find(std::string(left).append(right));
      if (left.empty() || right.empty() || !left_id || !right_id || !result) {
        throw Error(ErrorCode::kCorruptFile, "merge " + in_quotes(merge),
                    "two tokens that make up a third", kRemedy);
      }
      merges_.push_back({*left_id, *right_id, *result});
    }
  }

  /// Any text must have tokens: all bytes, or a token for what has none.
  void require_fallback() const {
    const bool all = std::none_of(bytes_.begin(), bytes_.end(), [](TokenId id) { return id < 0; });
    if (all || unknown_) return;
    throw Error(ErrorCode::kCorruptFile,
                "a vocabulary without all bytes and without unknown_token_id", "one of both",
                kRemedy);
  }

  void load_ends(std::initializer_list<std::optional<TokenId>> declared) {
    for (const auto& id : declared) {
      if (id) ends_.push_back(*id);
    }
    for (std::size_t i = 0; i < size(); ++i) {
      const bool known =
          kinds_[i] == TokenKind::kControl &&
          std::find(kEndNames.begin(), kEndNames.end(), texts_[i]) != kEndNames.end();
      if (known) ends_.push_back(static_cast<TokenId>(i));
    }
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
  }

  static constexpr std::array<TokenId, 256> no_bytes() noexcept {
    std::array<TokenId, 256> ids{};
    ids.fill(-1);
    return ids;
  }

  VocabularyType type_;
  std::vector<TokenKind> kinds_;  // [n_vocab]
  std::vector<float> scores_;     // [n_vocab] or empty
  std::string pre_, chat_template_;
  std::optional<TokenId> bos_, eos_, unknown_, padding_;
  bool adds_bos_, adds_space_prefix_;
  StringTable texts_, pieces_;  // [n_vocab]
  StringIndex index_;           // over texts_
  std::array<TokenId, 256> bytes_ = no_bytes();
  std::vector<Merge> merges_;
  std::vector<TokenId> ends_;
  std::vector<TokenId> suppressed_;
  std::size_t longest_text_ = 0;
};

}  // namespace foredraft::inline v0
