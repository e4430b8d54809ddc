// Fuzzing tokenizers: any vocabulary, as data and as a file, and any text. What is refused is
// refused with foredraft::Error; what is taken encodes every text and decodes what it has encoded.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/io/vocabulary_difference.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"
#include "fuzz/fuzz_main.hpp"
#include "support/toy_vocabulary.hpp"

namespace {

namespace fd = foredraft;
using fuzz::Choices;
using fuzz::demand;

/// Pieces that meet in merges and in texts, and some that are no UTF-8.
constexpr std::string_view kPieces[] = {"a",
                                        "b",
                                        "ab",
                                        "\xE2\x96\x81",
                                        "\xE2\x96\x81"
                                        "a",
                                        " ",
                                        "\xC4",
                                        "\xC4\x80",
                                        "\xE2\x82\xAC",
                                        "<0x41>",
                                        "<|im_end|>",
                                        "1",
                                        "'s",
                                        "\n",
                                        "\xFF",
                                        "<0x4",
                                        "",
                                        "\xF0\x9F\x98\x80"};

std::string any_piece(Choices& choices) {
  std::string piece;
  for (std::size_t n = 1 + choices.below(4); n > 0; --n) {
    const std::string part =
        choices.once_in(6) ? choices.text(6) : std::string(choices.pick(kPieces));
    for (std::size_t i = choices.once_in(64) ? 1 << 12 : 1; i > 0; --i) piece += part;
  }
  return piece;
}

float any_score(Choices& choices) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kScores[] = {0.0F,      -1.0F,      1.0F,   -0.0F, 1e30F,
                                      kInfinity, -kInfinity, 1e-45F, 2.0F,  NAN};
  return choices.pick(kScores);
}

std::optional<fd::TokenId> any_id(Choices& choices, std::size_t n_vocab) {
  switch (choices.below(8)) {
    case 5: return static_cast<fd::TokenId>(choices.below(n_vocab + 1));
    case 6: return -1;
    case 7: return std::numeric_limits<fd::TokenId>::max();
    default: return choices.flag() ? std::optional<fd::TokenId>(0) : std::nullopt;
  }
}

/// Often with tokens for all bytes, because little happens without.
fd::VocabularyData any_vocabulary(Choices& choices) {
  const bool sentence_piece = choices.flag();
  fd::VocabularyData data;
  if (!choices.once_in(8)) data = sentence_piece ? toy::sentence_piece() : toy::byte_level({});
  if (sentence_piece && !choices.once_in(8)) toy::add(data, fd::kSpaceMark);
  data.type = sentence_piece ? fd::VocabularyType::kSentencePiece : fd::VocabularyType::kByteLevel;
  static constexpr std::string_view kNames[] = {"gpt-2",  "llama-bpe", "qwen2",
                                                "smollm", "",          "unheard-of"};
  data.pre = choices.pick(kNames);
  for (std::size_t n = choices.below(40); n > 0; --n) {
    const auto kind = static_cast<fd::TokenKind>(choices.once_in(2) ? 1 + choices.below(6) : 1);
    const float score = any_score(choices);
    toy::add(data, any_piece(choices), kind, score);
  }
  if (choices.once_in(8)) data.scores.resize(choices.below(300));
  if (choices.once_in(8)) data.kinds.resize(choices.below(300), fd::TokenKind::kNormal);
  const std::size_t n_vocab = data.texts.size();
  for (std::size_t n = choices.below(32); n > 0 && n_vocab > 0; --n) {
    // A merge counts only where its result is a token.
    const std::string left =
        choices.flag() ? data.texts[choices.below(n_vocab)] : any_piece(choices);
    const std::string right =
        choices.flag() ? data.texts[choices.below(n_vocab)] : any_piece(choices);
    if (!choices.once_in(16)) toy::add(data, left + right);
    data.merges.push_back(left + (choices.once_in(64) ? "" : " ") + right);
  }
  for (auto* id : {&data.bos, &data.eos, &data.eot, &data.eom, &data.unknown, &data.padding}) {
    if (choices.once_in(4)) *id = any_id(choices, n_vocab);
  }
  if (choices.once_in(4)) data.add_bos = choices.flag();
  if (choices.once_in(2)) data.add_space_prefix = choices.flag();
  return data;
}

/// Words of the vocabulary and anything else, one of them very often: what is quadratic takes too
/// long.
std::string any_text(Choices& choices, const std::vector<std::string>& words) {
  const std::size_t repeated = choices.below(256);
  std::string text;
  for (std::size_t n = choices.below(24); n > 0; --n) {
    const std::string part =
        choices.once_in(4) || words.empty() ? choices.text(12) : words[choices.below(words.size())];
    for (std::size_t i = n == repeated && part.size() < 16 ? 1 << 13 : 1; i > 0; --i) text += part;
  }
  return text;
}

/// The vocabulary in a file.
/// @param exact  set to false where a number in it is another one
std::vector<std::byte> as_file(const fd::VocabularyData& data, Choices& choices, bool& exact) {
  fd::GgufWriter writer;
  const bool sentence_piece = data.type == fd::VocabularyType::kSentencePiece;
  writer.add("tokenizer.ggml.model", std::string(sentence_piece ? "llama" : "gpt2"));
  writer.add("tokenizer.ggml.pre", data.pre);
  writer.add_array("tokenizer.ggml.tokens", data.texts);
  std::vector<std::int32_t> kinds;
  for (const fd::TokenKind kind : data.kinds) kinds.push_back(static_cast<std::int32_t>(kind));
  exact = kinds.empty() || !choices.once_in(16);
  if (!exact) kinds.back() = choices.take<std::int32_t>();
  if (!kinds.empty()) writer.add_array("tokenizer.ggml.token_type", kinds);
  if (!data.scores.empty() && choices.once_in(16)) {
    std::vector<double> scores(data.scores.begin(), data.scores.end());
    scores.back() = choices.take<double>();
    exact = false;
    writer.add_array("tokenizer.ggml.scores", scores);
  } else if (!data.scores.empty()) {
    writer.add_array("tokenizer.ggml.scores", data.scores);
  }
  if (!data.merges.empty()) writer.add_array("tokenizer.ggml.merges", data.merges);
  const auto add_id = [&](const std::string& name, std::optional<fd::TokenId> id) {
    if (id) writer.add("tokenizer.ggml." + name + "_token_id", static_cast<std::uint32_t>(*id));
  };
  add_id("bos", data.bos);
  add_id("eos", data.eos);
  add_id("eot", data.eot);
  add_id("eom", data.eom);
  add_id("unknown", data.unknown);
  add_id("padding", data.padding);
  writer.add("tokenizer.ggml.add_bos_token", data.add_bos);
  writer.add("tokenizer.ggml.add_space_prefix", data.add_space_prefix);
  return writer.bytes();
}

/// Whether decode(tokens) == text is promised for tokens = encode(text): see Tokenizer.
bool promises_round_trip(const fd::Vocabulary& vocabulary, std::string_view text,
                         std::span<const fd::TokenId> tokens) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto id = vocabulary.byte_token(static_cast<unsigned char>(byte));
    if (!id || vocabulary.piece(*id) != std::string(1, static_cast<char>(byte))) return false;
  }
  // Text that is never split stands as it is. A vocabulary that spells it in the alphabet of its
  // other tokens, so that merges form it, contradicts itself.
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<fd::TokenId>(i);
    const std::string_view spelled = vocabulary.text(id);
    const bool plain = std::all_of(spelled.begin(), spelled.end(), [](char c) { return c > ' '; });
    if (vocabulary.kind(id) == fd::TokenKind::kUserDefined && !plain) return false;
  }
  if (vocabulary.type() == fd::VocabularyType::kByteLevel) return true;
  // A space without a token becomes the bytes of its mark, and one is put behind every token that
  // is cut out.
  const auto space = vocabulary.find(fd::kSpaceMark);
  const bool cut_out = std::any_of(tokens.begin(), tokens.end(), [&](fd::TokenId id) {
    return vocabulary.kind(id) != fd::TokenKind::kNormal &&
           vocabulary.kind(id) != fd::TokenKind::kByte;
  });
  return space && vocabulary.piece(*space) == " " && text.find(fd::kSpaceMark) == text.npos &&
         !(cut_out && vocabulary.adds_space_prefix());
}

void check_text(const fd::Tokenizer& tokenizer, std::string_view text) {
  const fd::Vocabulary& vocabulary = tokenizer.vocabulary();
  for (const bool parse_special : {false, true}) {
    const auto tokens = tokenizer.encode(text, {.parse_special = parse_special});
    for (const fd::TokenId id : tokens) {
      demand(vocabulary.contains(id), "a token outside the vocabulary");
      (void)tokenizer.is_end(id);
    }
    const auto with_bos = tokenizer.encode(text, {.add_bos = true, .parse_special = parse_special});
    demand(with_bos.size() == tokens.size() + vocabulary.adds_bos() &&
               std::equal(tokens.rbegin(), tokens.rend(), with_bos.rbegin()),
           "BOS changes what comes behind it");
    const std::string decoded = tokenizer.decode(tokens, parse_special);
    if (decoded == text || !promises_round_trip(vocabulary, text, tokens)) continue;
    throw std::logic_error("text " + fd::in_quotes(text, 200) + " comes back as " +
                           fd::in_quotes(decoded, 200));
  }
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  const fd::VocabularyData data = any_vocabulary(choices);
  bool exact = true;
  const std::vector<std::byte> file = as_file(data, choices, exact);
  const std::string text = any_text(choices, data.texts);
  try {
    const fd::Tokenizer tokenizer = fd::Tokenizer::from(fd::Gguf::parse(file));
    check_text(tokenizer, text);
    const fd::Tokenizer same{fd::Vocabulary(data)};
    demand(!exact || !fd::first_difference(tokenizer.vocabulary(), same.vocabulary()),
           "a file says something else than its data");
    return true;
  } catch (const fd::Error&) {
    return false;
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() { return noise(64, 600); }
