#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <foredraft/core/result.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "openai_request.hpp"
#include "output.hpp"
#include "scheduler.hpp"
#include "usage.hpp"

namespace cli {

/// What the OpenAI API answers to a request, whole or in chunks. Members of our own: `from_draft` of a
/// chunk, and llama.cpp's `timings`.
class Reply {
 public:
  /// @param request, tokenizer  outlive the reply
  /// @param model  what the answer calls it
  Reply(const TextRequest& request, const fd::Tokenizer& tokenizer, std::string model);

  /// Of a stream: a token of a text. Nothing where it shows nothing yet.
  std::optional<Json> chunk(int text, const fd::Emitted& token);
  /// The end of a text.
  Json last_chunk(int text, const fd::Result& result);
  /// What all texts took, behind them.
  Json usage_chunk() const;

  /// A text is over; the whole answer needs all of them.
  void add(int text, fd::Result result);
  bool complete() const { return over_ == request_.texts(); }
  Json whole() const;

 private:
  Json head(bool chunk) const;
  Json choice(int text) const;
  Json usage() const;
  Json logprobs(int text, const std::vector<fd::TokenId>& tokens,
                const std::vector<fd::Logprobs>& rows);
  Json chat_logprobs(const std::vector<fd::TokenId>& tokens,
                     const std::vector<fd::Logprobs>& rows) const;
  Json completion_logprobs(int text, const std::vector<fd::TokenId>& tokens,
                           const std::vector<fd::Logprobs>& rows);

  const TextRequest& request_;
  const fd::Tokenizer& tokenizer_;
  std::string model_;
  std::string id_;
  std::int64_t created_;                            // seconds since 1970
  std::vector<std::optional<fd::Result>> results_;  // [texts]
  std::vector<Json> logprobs_;                      // [texts], of whole answers
  std::vector<std::size_t> offsets_;                // [texts], characters with logprobs so far
  std::vector<bool> begun_;                         // [texts], a chunk came
  int over_ = 0;
};

/// The body of an answer that is an error.
Json error_body(const std::string& message, const std::string& type, const std::string& code);

/// An error with the status that HTTP has for it.
struct HttpError {
  int status;
  Json body;
};
HttpError http_error(const Failure& failure);

}  // namespace cli
