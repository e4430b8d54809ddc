#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace foredraft::inline v0 {

/// What went wrong, in classes that a program can act on. `docs/reference/errors.md` has one
/// section per code with cause and remedy; a test holds that page and this list together.
enum class ErrorCode {
  kIo,                  ///< a file cannot be opened, read or mapped
  kCorruptFile,         ///< a file contradicts its own format
  kUnsupportedModel,    ///< a well-formed file that this version cannot run
  kShapeMismatch,       ///< a tensor is missing or has another shape than the family needs
  kOutOfMemory,         ///< a buffer cannot be had
  kEmptyPrompt,         ///< there is no token to start from
  kContextOverflow,     ///< the prompt does not fit into the cache
  kTokenOutOfRange,     ///< a token id outside the vocabulary
  kVocabularyMismatch,  ///< target and draft model do not share their vocabulary
  kInvalidLogits,       ///< the target returned NaN, or a row without any possible token
  kInvalidOption,       ///< an option is out of range, contradicts another, or would have no effect
  kInvalidDraft,        ///< a drafter broke its contract
  kUnsupportedCache,    ///< a cache cannot do what the drafter needs
  kInvalidConstraint,   ///< a grammar, schema or pattern that cannot be read or followed
  kDevice,              ///< a GPU or its driver is missing, or a kernel failed
};

/// Stable spelling of a code, as it stands in messages and in docs/reference/errors.md.
constexpr std::string_view name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kIo: return "io";
    case ErrorCode::kCorruptFile: return "corrupt-file";
    case ErrorCode::kUnsupportedModel: return "unsupported-model";
    case ErrorCode::kShapeMismatch: return "shape-mismatch";
    case ErrorCode::kOutOfMemory: return "out-of-memory";
    case ErrorCode::kEmptyPrompt: return "empty-prompt";
    case ErrorCode::kContextOverflow: return "context-overflow";
    case ErrorCode::kTokenOutOfRange: return "token-out-of-range";
    case ErrorCode::kVocabularyMismatch: return "vocabulary-mismatch";
    case ErrorCode::kInvalidLogits: return "invalid-logits";
    case ErrorCode::kInvalidOption: return "invalid-option";
    case ErrorCode::kInvalidDraft: return "invalid-draft";
    case ErrorCode::kUnsupportedCache: return "unsupported-cache";
    case ErrorCode::kInvalidConstraint: return "invalid-constraint";
    case ErrorCode::kDevice: return "device";
  }
  return "unknown";
}

/// The one exception type that foredraft throws for set-up and input. The message says what was
/// found, what was expected, and what to try.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string_view found, std::string_view expected,
        std::string_view hint = {})
      : std::runtime_error(compose(code, found, expected, hint)),
        code_(code),
        found_(found),
        expected_(expected),
        hint_(hint) {}

  ErrorCode code() const noexcept { return code_; }
  const std::string& found() const noexcept { return found_; }
  const std::string& expected() const noexcept { return expected_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  static std::string compose(ErrorCode code, std::string_view found, std::string_view expected,
                             std::string_view hint) {
    std::string text = "[";
    text.append(name_of(code)).append("] found ").append(found);
    if (!expected.empty()) text.append("; expected ").append(expected);
    if (!hint.empty()) text.append("; hint: ").append(hint);
    return text;
  }

  ErrorCode code_;
  std::string found_;
  std::string expected_;
  std::string hint_;
};

}  // namespace foredraft::inline v0
