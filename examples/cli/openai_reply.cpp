#include "openai_reply.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include <foredraft/core/index.hpp>

namespace cli {

namespace {

/// Its name in the API, which does not tell a full context from a limit on tokens.
std::string_view finish_of(fd::FinishReason reason) {
  return reason == fd::FinishReason::kContext ? "length" : fd::name_of(reason);
}

/// Different for every answer of this process, and for processes that began at different times.
std::string new_id(bool chat) {
  static const auto begun = std::chrono::system_clock::now().time_since_epoch().count();
  static std::atomic<unsigned> answers = 0;
  return (chat ? "chatcmpl-" : "cmpl-") +
         formatted("%llx-%u", static_cast<unsigned long long>(begun), ++answers);
}

Json timings_of(const fd::Stats& stats) {
  const double prompt = stats.seconds.prefill, total = stats.seconds.total;
  return {{"cache_n", stats.reused_tokens},
          {"prompt_n", stats.prompt_tokens - stats.reused_tokens},
          {"prompt_ms", finite(1000 * prompt)},
          {"prompt_per_second", finite(stats.prompt_tokens_per_second())},
          {"predicted_n", stats.emitted},
          {"predicted_ms", finite(1000 * total)},
          {"predicted_per_second", finite(stats.tokens_per_second())},
          {"draft_n", stats.drafted},
          {"draft_n_accepted", stats.accepted}};
}

/// A token in the logprobs of a chat.
Json logprob_entry(const fd::Tokenizer& tokenizer, const fd::TokenLogprob& token) {
  const std::string_view piece = tokenizer.piece(token.token, true);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", piece}, {"logprob", shortest(token.logprob)}, {"bytes", std::move(bytes)}};
}

/// That begin in it, in UTF-8.
std::size_t characters(std::string_view piece) {
  return fd::idx(std::ranges::count_if(
      piece, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Reply::Reply(const TextRequest& request, const fd::Tokenizer& tokenizer, std::string model)
    : request_(request),
      tokenizer_(tokenizer),
      model_(std::move(model)),
      id_(new_id(request.chat)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      results_(fd::idx(request.texts())),
      logprobs_(fd::idx(request.texts())),
      offsets_(fd::idx(request.texts())),
      begun_(fd::idx(request.texts())) {}

Json Reply::head(bool chunk) const {
  std::string object = request_.chat ? "chat.completion" : "text_completion";
  if (chunk && request_.chat) object += ".chunk";
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", "foredraft-" + version()}};
}

std::optional<Json> Reply::chunk(int text, const fd::Emitted& token) {
  if (token.text.empty() && !token.logprobs && !request_.tokens) return std::nullopt;
  Json choice{{"index", text}};
  if (request_.chat) {
    Json delta = Json::object();
    if (!begun_[fd::idx(text)]) delta["role"] = "assistant";
    delta["content"] = token.text;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = token.text;
  }
  begun_[fd::idx(text)] = true;
  choice["logprobs"] = token.logprobs ? logprobs(text, {token.token}, {*token.logprobs}) : Json();
  choice["finish_reason"] = nullptr;
  choice["from_draft"] = token.from_draft;
  if (request_.tokens) choice["tokens"] = {token.token};
  Json json = head(true);
  json["choices"] = Json::array({std::move(choice)});
  return json;
}

Json Reply::last_chunk(int text, const fd::Result& result) {
  Json choice{{"index", text}};
  if (request_.chat) {
    choice["delta"] = Json::object();
    if (!begun_[fd::idx(text)]) choice["delta"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_of(result.finish_reason);
  Json json = head(true);
  json["choices"] = Json::array({std::move(choice)});
  json["timings"] = timings_of(result.stats);
  return json;
}

Json Reply::usage_chunk() const {
  Json json = head(true);
  json["choices"] = Json::array();
  json["usage"] = usage();
  return json;
}

void Reply::add(int text, fd::Result result) {
  if (request_.options.logprobs >= 0 && !request_.stream) {
    logprobs_[fd::idx(text)] = logprobs(text, result.tokens, result.logprobs);
  }
  results_[fd::idx(text)] = std::move(result);
  ++over_;
}

Json Reply::choice(int text) const {
  const fd::Result& result = *results_[fd::idx(text)];
  Json choice{{"index", text}};
  if (request_.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", result.text}};
  } else {
    choice["text"] = result.text;
  }
  choice["logprobs"] = logprobs_[fd::idx(text)];
  choice["finish_reason"] = finish_of(result.finish_reason);
  if (request_.tokens) choice["tokens"] = result.tokens;
  return choice;
}

Json Reply::whole() const {
  Json json = head(false);
  json["choices"] = Json::array();
  fd::Stats all;
  for (int text = 0; text < request_.texts(); ++text) {
    json["choices"].push_back(choice(text));
    all += results_[fd::idx(text)]->stats;
  }
  json["usage"] = usage();
  json["timings"] = timings_of(all);
  return json;
}

/// Texts behind one prompt count it once, as the API has it.
Json Reply::usage() const {
  std::int64_t prompts = 0, cached = 0, written = 0, drafted = 0, accepted = 0;
  for (const auto& prompt : request_.prompts) prompts += std::ssize(prompt);
  for (int text = 0; text < request_.texts(); ++text) {
    const auto& result = results_[fd::idx(text)];
    if (text % request_.n == 0) cached += result->stats.reused_tokens;
    written += std::ssize(result->tokens);
    drafted += result->stats.drafted;
    accepted += result->stats.accepted;
  }
  return {{"prompt_tokens", prompts},
          {"completion_tokens", written},
          {"total_tokens", prompts + written},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", accepted},
            {"rejected_prediction_tokens", drafted - accepted}}}};
}

Json Reply::logprobs(int text, const std::vector<fd::TokenId>& tokens,
                     const std::vector<fd::Logprobs>& rows) {
  return request_.chat ? chat_logprobs(tokens, rows) : completion_logprobs(text, tokens, rows);
}

Json Reply::chat_logprobs(const std::vector<fd::TokenId>& tokens,
                          const std::vector<fd::Logprobs>& rows) const {
  Json content = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Json token = logprob_entry(tokenizer_, {tokens[i], rows[i].logprob});
    token["top_logprobs"] = Json::array();
    for (const fd::TokenLogprob& top : rows[i].top) {
      token["top_logprobs"].push_back(logprob_entry(tokenizer_, top));
    }
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}};
}

Json Reply::completion_logprobs(int text, const std::vector<fd::TokenId>& tokens,
                                const std::vector<fd::Logprobs>& rows) {
  Json pieces = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  std::size_t& offset = offsets_[fd::idx(text)];
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view piece = tokenizer_.piece(tokens[i], true);
    Json top = Json::object();
    for (const fd::TokenLogprob& one : rows[i].top) {
      top[std::string(tokenizer_.piece(one.token, true))] = shortest(one.logprob);
    }
    pieces.push_back(piece);
    values.push_back(shortest(rows[i].logprob));
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += characters(tokenizer_.piece(tokens[i]));
  }
  return {{"tokens", std::move(pieces)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json error_body(const std::string& message, const std::string& type, const std::string& code) {
  return {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}}};
}

HttpError http_error(const Failure& failure) {
  if (!failure.code) return {500, error_body(failure.message, "server_error", "internal_error")};
  const auto refused = [&](const std::string& code) {
    return HttpError{400, error_body(failure.message, "invalid_request_error", code)};
  };
  const std::string name(fd::name_of(*failure.code));
  switch (*failure.code) {
    case fd::ErrorCode::kContextOverflow: return refused("context_length_exceeded");
    case fd::ErrorCode::kInvalidOption:
    case fd::ErrorCode::kEmptyPrompt:
    case fd::ErrorCode::kTokenOutOfRange:
    case fd::ErrorCode::kInvalidConstraint:
    case fd::ErrorCode::kUnsupportedModel: return refused(name);
    default: return {500, error_body(failure.message, "server_error", name)};
  }
}

}  // namespace cli
