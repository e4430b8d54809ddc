#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/types.hpp>
#include <foredraft/io/chat_format.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "json_fields.hpp"
#include "usage.hpp"

namespace cli {

/// What a request asks for.
struct TextRequest {
  bool chat = false;  ///< /v1/chat/completions, else /v1/completions
  std::vector<std::vector<fd::TokenId>> prompts = {};
  int n = 1;  ///< texts for each prompt
  fd::Options options = {};
  bool seeded = false;  ///< the seed is the request's own
  bool tokens = false;  ///< the answer says which ones its texts are made of
  bool stream = false;
  bool stream_usage = false;  ///< a last chunk says what the texts took

  int texts() const { return static_cast<int>(prompts.size()) * n; }
  const std::vector<fd::TokenId>& prompt_of(int text) const;
};

/// Reads requests of the OpenAI API, with the members that llama.cpp's server adds to it. Unknown
/// members are ignored, as other servers do; those that would change an answer and are not there yet
/// are refused. From any thread.
class RequestReader {
 public:
  /// @param tokenizer    of the target. It outlives the reader
  /// @param chat_format  as --chat-format: empty for what the model's template says
  /// @param defaults     of what a request leaves out
  /// @param n_ctx        tokens of a text
  RequestReader(const fd::Tokenizer& tokenizer, std::string chat_format, fd::Options defaults,
                int n_ctx);

  /// The body of POST /v1/chat/completions.
  /// @errors kInvalidOption, kInvalidConstraint, kEmptyPrompt, kContextOverflow; kUnsupportedModel for
  ///   a model without a chat format
  TextRequest chat(std::string_view body) const;
  /// Of POST /v1/completions. @errors likewise, kTokenOutOfRange
  TextRequest completion(std::string_view body) const;

 private:
  void read_common(const Fields& fields, TextRequest& request) const;
  void read_lengths(const Fields& fields, fd::Options& options) const;
  void read_sampling(const Fields& fields, TextRequest& request) const;
  void read_stream(const Fields& fields, TextRequest& request) const;
  void read_constraint(const Fields& fields, const fd::ChatTemplate* chat,
                       fd::Options& options) const;
  void check(const TextRequest& request) const;

  const fd::Tokenizer& tokenizer_;
  std::string chat_format_;
  fd::Options defaults_;
  int n_ctx_;
  int n_vocab_;
  mutable std::once_flag pieces_once_;
  mutable std::shared_ptr<const fd::PieceTrie> pieces_;  // of the first constraint, for all
};

}  // namespace cli
