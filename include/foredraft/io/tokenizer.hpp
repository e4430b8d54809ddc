#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/bpe.hpp>
#include <foredraft/io/byte_alphabet.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/pretokenizer.hpp>
#include <foredraft/io/special_tokens.hpp>
#include <foredraft/io/spm.hpp>
#include <foredraft/io/vocabulary.hpp>
#include <foredraft/io/vocabulary_reader.hpp>

namespace foredraft::inline v0 {

struct EncodeOptions {
  bool add_bos = false;        ///< begin with BOS, if the model asks for it (Vocabulary::adds_bos)
  bool parse_special = false;  ///< `<|im_start|>` in the text is the token, not its letters
  /// The text goes on from another one: no space is put before it, whatever the model asks for
  /// (Vocabulary::adds_space_prefix).
  bool continues = false;
};

/// From text to tokens and back.
///
/// Immutable: many threads may use one. Text is any bytes; see Pretokenizer and
/// SentencePieceEncoder for what is done with those that are not UTF-8.
///
/// decode(encode(text)) == text where the vocabulary has a token for each byte; for parse_special,
/// with decode's `special`. Not so
///  - for SentencePiece and merged text, where the text has a U+2581, or the vocabulary none; and
///    with a space prefix, of which the text behind a special token gets one, too;
///  - where a user-defined token is spelled as the vocabulary writes a space or a byte.
class Tokenizer {
 public:
  /// @errors kUnsupportedModel: a pre-tokenizer that is not known
  explicit Tokenizer(Vocabulary vocabulary)
      : vocabulary_(std::move(vocabulary)),
        user_defined_(vocabulary_, false),
        special_(vocabulary_, true) {
    if (vocabulary_.type() == VocabularyType::kSentencePiece) return;
    bpe_.emplace(vocabulary_);
    if (vocabulary_.type() == VocabularyType::kByteLevel) {
      pretokenizer_ = Pretokenizer::named(vocabulary_.pre());
    }
  }

  /// From a model file, which is not needed any more afterwards.
  /// @errors see read_vocabulary
  static Tokenizer from(const Gguf& file) {
    return or_out_of_memory("the tokenizer", [&file] { return Tokenizer(read_vocabulary(file)); });
  }

  /// @cost O(n log n) in the bytes of a word (SentencePiece: of the text), O(n) in words
  /// @errors kContextOverflow: a text of 1 GiB or more; kOutOfMemory
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const {
    if (text.size() >= kTooLong) {
      throw Error(ErrorCode::kContextOverflow,
                  "a text of " + std::to_string(text.size()) + " bytes",
                  "less than " + std::to_string(kTooLong));
    }
    return or_out_of_memory("the tokens of a text", [&] { return tokens_of(text, options); });
  }

  /// The text of the tokens; control tokens only where `special` asks for them. May end inside a
  /// character. The space that encode puts before a text is taken away again.
  /// @errors kTokenOutOfRange
  std::string decode(std::span<const TokenId> tokens, bool special = false) const {
    std::string text;
    bool at_begin = true;
    for (const TokenId id : tokens) {
      std::string_view bytes = vocabulary_.piece(id, special);
      const bool prefixed = at_begin && vocabulary_.adds_space_prefix() && vocabulary_.is_text(id);
      if (prefixed && vocabulary_.type() == VocabularyType::kSentencePiece &&
          bytes.starts_with(' ')) {
        bytes.remove_prefix(1);
      }
      if (vocabulary_.is_text(id)) at_begin = false;
      text += bytes;
    }
    return text;
  }

  /// The bytes of one token: see Vocabulary::piece.
  std::string_view piece(TokenId id, bool special = false) const {
    return vocabulary_.piece(id, special);
  }
  bool is_end(TokenId id) const noexcept { return vocabulary_.is_end(id); }
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

 private:
  /// Offsets are 32 bits wide, and marks for spaces take three bytes.
  static constexpr std::size_t kTooLong = std::size_t{1} << 30;

  struct Workspace {
    std::vector<std::string_view> words;
    BytePairEncoder::Workspace merging;
  };

  std::vector<TokenId> tokens_of(std::string_view text, EncodeOptions options) const {
    std::vector<TokenId> out;
    if (options.add_bos && vocabulary_.adds_bos()) out.push_back(vocabulary_.bos().value());
    Workspace work;
    std::vector<SpecialTokens::Found> special;
    (options.parse_special ? special_ : user_defined_).find(text, special);
    std::size_t at = 0;
    for (const auto& found : special) {
      encode_plain(text.substr(at, found.begin - at), options, work, out);
      out.push_back(found.id);
      at = found.begin + found.length;
    }
    if (at < text.size()) encode_plain(text.substr(at), options, work, out);
    return out;
  }

  /// A text without special tokens, which begins the text or follows after one.
  void encode_plain(std::string_view text, EncodeOptions options, Workspace& work,
                    std::vector<TokenId>& out) const {
    if (vocabulary_.type() == VocabularyType::kMergedText) return encode_lines(text, work, out);
    if (!pretokenizer_) {
      const bool space = vocabulary_.adds_space_prefix() && !options.continues;
      SentencePieceEncoder::encode(vocabulary_, text, space, out);
      return;
    }
    work.words.clear();
    pretokenizer_->split(text, work.words);
    for (const std::string_view word : work.words) {
      if (pretokenizer_->keeps_whole_words()) {
        const auto whole = vocabulary_.find(kByteAlphabet.write(word));
        if (whole && vocabulary_.is_text(*whole)) {
          out.push_back(*whole);
          continue;
        }
      }
      bpe_->encode(word, work.merging, out);
    }
  }

  /// Lines with marks for spaces, and what is between them: a run of line breaks that is a token stays
  /// whole.
  /// @source llama.cpp, the pre-tokenizer of `gemma4`
  void encode_lines(std::string_view text, Workspace& work, std::vector<TokenId>& out) const {
    const std::string marked = with_space_marks(text, false);
    for (std::string_view rest = marked; !rest.empty();) {
      const bool breaks = rest.front() == '\n';
      const std::size_t end = breaks ? rest.find_first_not_of('\n') : rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      rest.remove_prefix(part.size());
      const auto whole = breaks ? vocabulary_.find(part) : std::nullopt;
      if (whole && vocabulary_.is_text(*whole)) {
        out.push_back(*whole);
      } else {
        bpe_->encode_characters(vocabulary_, part, work.merging, out);
      }
    }
  }

  Vocabulary vocabulary_;
  SpecialTokens user_defined_, special_;
  std::optional<Pretokenizer> pretokenizer_;  // kByteLevel only
  std::optional<BytePairEncoder> bpe_;        // not of kSentencePiece
};

}  // namespace foredraft::inline v0
