#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// pcre2.h wants a default width. Only names with the suffix _8 are used here, so another choice of
// the including program does no harm.
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/utf8.hpp>

namespace foredraft::inline v0 {

/// Cuts text into the words inside which byte-level merges happen.
///
/// The words, one after the other, are exactly the text. Bytes that are not UTF-8 are no error:
/// each run of them is a word of its own, and the text on either side is cut as if it ended there.
/// Text is not normalized.
///
/// Where PCRE2 gives up (its limits guard against patterns that backtrack without end; the ones
/// below are linear, and only a run of millions of spaces comes near) the rest is one word: nothing
/// is lost, and merging it is O(n log n). May be used by many threads at once.
/// @cost O(bytes)
class Pretokenizer {
 public:
  /// By the name in `tokenizer.ggml.pre`.
  /// @errors kUnsupportedModel, with the names that are known
  static Pretokenizer named(std::string_view name) {
    for (const Scheme& scheme : schemes()) {
      if (scheme.name == name) return Pretokenizer(scheme);
    }
    std::string known;
    for (const Scheme& scheme : schemes())
      known.append(known.empty() ? "" : ", ").append(scheme.name);
    throw Error(ErrorCode::kUnsupportedModel,
                name.empty() ? "no name of a pre-tokenizer (tokenizer.ggml.pre)"
                             : "pre-tokenizer " + in_quotes(name),
                "one of " + known,
                "text split otherwise would get other tokens than in training: choose another "
                "model");
  }

  /// Appends the words of `text`, as views into it.
  void split(std::string_view text, std::vector<std::string_view>& words) const {
    std::vector<MatchData> matches;
    matches.reserve(stages_.size());  // so that growing cannot lose what was just made
    for (const Code& stage : stages_) {
      matches.emplace_back(pcre2_match_data_create_from_pattern_8(stage.get(), nullptr));
      if (!matches.back()) throw Error(ErrorCode::kOutOfMemory, "no memory to match in", "some");
    }
    while (!text.empty()) {
      const std::size_t valid = valid_utf8_prefix(text);
      split_valid(text.substr(0, valid), 0, matches, words);
      text.remove_prefix(valid);
      std::size_t invalid = 0;
      while (invalid < text.size() && valid_utf8_character(text.substr(invalid)) == 0) ++invalid;
      if (invalid > 0) words.push_back(text.substr(0, invalid));
      text.remove_prefix(invalid);
    }
  }

  /// Whether a word that is itself a token stays whole, whatever the merges say.
  bool keeps_whole_words() const noexcept { return keeps_whole_words_; }

 private:
  struct Scheme {
    std::string_view name;
    std::vector<std::string_view> stages;  ///< each cuts the words of the one before further
    bool keeps_whole_words = false;
  };

  struct Free {
    void operator()(pcre2_code_8* code) const noexcept { pcre2_code_free_8(code); }
    void operator()(pcre2_match_data_8* data) const noexcept { pcre2_match_data_free_8(data); }
  };
  using Code = std::unique_ptr<pcre2_code_8, Free>;
  using MatchData = std::unique_ptr<pcre2_match_data_8, Free>;

  /// @source gpt-2: encoder.py of the GPT-2 release. llama-bpe, qwen2: pre_tokenizer in
  ///   tokenizer.json of Llama 3 and Qwen2. smollm: tokenizer.json of SmolLM, single digits first,
  ///   then gpt-2; refact and starcoder are the same (Granite). dbrx: that of GPT-4 (OLMo 2, Phi 4).
  ///   qwen35: tokenizer.json of Qwen3.5. tekken: tokenizer.json of Mistral Nemo. gpt-4o: tokenizer.json of Phi 4 mini.
  static std::span<const Scheme> schemes() {
    static constexpr std::string_view kGpt2 =
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    static constexpr std::string_view kLlama3 =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static constexpr std::string_view kQwen2 =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
    // What combines with letters is part of words.
    static constexpr std::string_view kQwen35 =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
        R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    // Words that turn from capitals to small letters only once, with what combines with letters.
    static constexpr std::string_view kTekken =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
        R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
        R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static constexpr std::string_view kGpt4o =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static constexpr std::string_view kDigits = R"(\p{N})";
    static const std::vector<Scheme> all = {{"gpt-2", {kGpt2}},
                                            {"olmo", {kGpt2}},
                                            {"llama-bpe", {kLlama3}, true},
                                            {"dbrx", {kLlama3}},
                                            {"smaug-bpe", {kLlama3}},
                                            {"qwen2", {kQwen2}},
                                            {"deepseek-r1-qwen", {kQwen2}},
                                            {"qwen35", {kQwen35}},
                                            {"smollm", {kDigits, kGpt2}},
                                            {"refact", {kDigits, kGpt2}},
                                            {"starcoder", {kDigits, kGpt2}},
                                            {"tekken", {kTekken}, true},
                                            {"gpt-4o", {kGpt4o}}};
    return all;
  }

  explicit Pretokenizer(const Scheme& scheme) : keeps_whole_words_(scheme.keeps_whole_words) {
    for (const std::string_view pattern : scheme.stages) stages_.push_back(compile(pattern));
  }

  static Code compile(std::string_view pattern) {
    const std::string spelled = with_unicode_spaces(pattern);
    int error = 0;
    std::size_t at = 0;
    Code code(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(spelled.data()), spelled.size(),
                              PCRE2_UTF, &error, &at, nullptr));
    if (!code) {
      throw Error(
          ErrorCode::kUnsupportedModel,
          "a PCRE2 library that refuses " + in_quotes(spelled) + " at " + std::to_string(at),
          "PCRE2 with Unicode support");
    }
    // Where no executable memory is to be had, the interpreter finds the same words.
    static_cast<void>(pcre2_jit_compile_8(code.get(), PCRE2_JIT_COMPLETE));
    return code;
  }

  /// The engines for which the patterns were written match white space as the Unicode property
  /// White_Space says. PCRE2 has ASCII or, with UCP, one character more (U+180E).
  static std::string with_unicode_spaces(std::string_view pattern) {
    static constexpr std::string_view kSpaces =
        R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
    std::string spelled;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const std::string_view two = pattern.substr(i, 2);
      if (two == R"(\s)" || two == R"(\S)") {
        const bool negated = two[1] == 'S';
        if (!in_class) spelled += negated ? "[^" : "[";
        spelled += kSpaces;
        if (!in_class) spelled += ']';
        ++i;
        continue;
      }
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      spelled += pattern[i];
    }
    return spelled;
  }

  void split_valid(std::string_view text, std::size_t stage, const std::vector<MatchData>& matches,
                   std::vector<std::string_view>& words) const {
    if (text.empty()) return;
    if (stage == stages_.size()) return words.push_back(text);
    std::size_t at = 0;
    while (at < text.size()) {
      const int count = match(text, at, stage, matches[stage]);
      if (count <= 0) break;
      const std::size_t* const range = pcre2_get_ovector_pointer_8(matches[stage].get());
      split_valid(text.substr(at, range[0] - at), stage + 1, matches, words);
      split_valid(text.substr(range[0], range[1] - range[0]), stage + 1, matches, words);
      at = range[1];
    }
    split_valid(text.substr(at), stage + 1, matches, words);
  }

  /// Positive where a word was found from `at` on. The text is valid UTF-8: it was checked above.
  int match(std::string_view text, std::size_t at, std::size_t stage,
            const MatchData& data) const noexcept {
    constexpr std::uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    const auto* const subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
    const auto* const code = stages_[stage].get();
    const int count = pcre2_match_8(code, subject, text.size(), at, kOptions, data.get(), nullptr);
    if (count != PCRE2_ERROR_JIT_STACKLIMIT) return count;
    // The compiled matcher has 32 KiB of stack, the interpreter megabytes of heap.
    return pcre2_match_8(code, subject, text.size(), at, kOptions | PCRE2_NO_JIT, data.get(),
                         nullptr);
  }

  std::vector<Code> stages_;
  bool keeps_whole_words_ = false;
};

}  // namespace foredraft::inline v0
