#include "openai_request.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/regex.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/io/chat_format.hpp>

#include "constraint_arguments.hpp"
#include "prompts.hpp"

namespace cli {

namespace {

// Whoever sends a body must not choose how deep our recursions are, nor how long a search takes in an
// object, which keeps its members in a list.
constexpr int kMostLevels = 64;
constexpr int kMostMembers = 1 << 14;
constexpr int kMostTexts = 128;
constexpr int kMostLogprobs = 20;  // as in the API
constexpr std::size_t kMostStops = 16;

fd::Error invalid(std::string_view found, std::string_view expected, std::string_view hint = {}) {
  return {fd::ErrorCode::kInvalidOption, found, expected, hint};
}

fd::Error too_many_texts() {
  return invalid("more than " + std::to_string(kMostTexts) + " texts",
                 "fewer prompts, or a smaller \"n\"");
}

Json parsed(std::string_view body) {
  int members = 0;
  const auto limit = [&](int depth, Json::parse_event_t event, Json&) {
    members += event == Json::parse_event_t::key ? 1 : 0;
    if (depth > kMostLevels || members > kMostMembers) {
      throw invalid("a body that is too deep or has too many members",
                    "at most " + std::to_string(kMostLevels) + " levels, and " +
                        std::to_string(kMostMembers) + " members in all");
    }
    return true;
  };
  Json json = Json::parse(body, limit, false);
  if (json.is_discarded()) throw invalid("a body that is no JSON", "a JSON object");
  return json;
}

/// A text, or an array of parts that are texts.
std::string content_of(const Fields& message) {
  std::string text;
  const Json* const content = message.find("content");
  if (content == nullptr || !content->is_array()) {
    if (!message.read("content", text)) throw invalid("a message without content", "a text");
    return text;
  }
  for (const Json& item : *content) {
    const Fields part(item, "content");
    std::string type, piece;
    part.read("type", type);
    if (type != "text" || !part.read("text", piece)) {
      throw invalid("a part of type '" + type + "' in a message", "parts of type text");
    }
    text += piece;
  }
  return text;
}

std::vector<fd::ChatMessage> messages_of(const Fields& fields) {
  const Json* const messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    throw invalid("a request without messages", "\"messages\", an array");
  }
  std::vector<fd::ChatMessage> read;
  for (const Json& item : *messages) {
    const Fields message(item, "messages");
    std::string role;
    message.read("role", role);
    if (role == "developer") role = "system";  // what newer models call it
    read.push_back({role, content_of(message)});
  }
  return read;
}

/// What would change an answer and is not there yet, unless its value is as good as nothing.
void refuse_unsupported(const Fields& fields) {
  for (const char* const name : {"tools", "functions", "audio", "suffix", "prediction", "echo"}) {
    const Json* const member = fields.find(name);
    if (member == nullptr || member->empty() || *member == false || *member == "") continue;
    throw invalid("\"" + std::string(name) + "\", which this server does not know",
                  "a request without it");
  }
}

std::vector<std::string> stops_of(const Fields& fields, std::vector<std::string> otherwise) {
  const Json* const stop = fields.find("stop");
  if (stop == nullptr) return otherwise;
  if (stop->is_string()) return {stop->get<std::string>()};
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!stop->is_array() || stop->size() > kMostStops || !std::ranges::all_of(*stop, is_text)) {
    throw fields.refuse("stop", "a text, or an array of at most " + std::to_string(kMostStops));
  }
  return stop->get<std::vector<std::string>>();
}

void check_token(std::int64_t id, int n_vocab) {
  if (id >= 0 && id < n_vocab) return;
  throw fd::Error(fd::ErrorCode::kTokenOutOfRange, "token " + std::to_string(id),
                  "0 to " + std::to_string(n_vocab - 1));
}

/// {"15043": 1.5, "15044": false}: false for never.
std::vector<fd::LogitBias> biases_of(const Fields& fields, int n_vocab) {
  std::vector<fd::LogitBias> biases;
  const Json* const object = fields.find("logit_bias");
  if (object == nullptr) return biases;
  const auto refused = [&] {
    return fields.refuse("logit_bias", "an object of ids of tokens with a number each, or false");
  };
  if (!object->is_object()) throw refused();
  for (const auto& [id, value] : object->items()) {
    fd::LogitBias bias;
    const auto end = id.data() + id.size();
    const auto [last, error] = std::from_chars(id.data(), end, bias.token);
    if (error != std::errc() || last != end) throw refused();
    check_token(bias.token, n_vocab);
    if (value == false) {
      bias.bias = -std::numeric_limits<float>::infinity();
    } else if (value.is_number()) {
      bias.bias = value.get<float>();
    } else {
      throw refused();
    }
    biases.push_back(bias);
  }
  return biases;
}

/// What the answer has to be, in one of the ways to say it.
std::optional<fd::Grammar> grammar_of(const Fields& fields) {
  std::optional<fd::Grammar> grammar;
  const auto use = [&](fd::Grammar found) {
    if (grammar) throw invalid("several constraints", "one of them");
    grammar = std::move(found);
  };
  if (const Json* const object = fields.find("response_format")) {
    const Fields format(*object, "response_format");
    std::string type;
    format.read("type", type);
    if (type == "json_object") {
      use(fd::json_schema_grammar(R"({"type": "object"})"));
    } else if (type == "json_schema") {
      const Json* const named = format.find("json_schema");
      if (named == nullptr) throw format.refuse("type", "\"json_schema\" beside it");
      const Json* const schema = Fields(*named, "response_format.json_schema").find("schema");
      use(fd::json_schema_grammar(schema == nullptr ? "{}" : schema->dump()));
    } else if (type != "text") {
      throw invalid("response_format of type '" + type + "'", "text, json_object or json_schema");
    }
  }
  if (const Json* const schema = fields.find("json_schema")) {
    use(fd::json_schema_grammar(schema->dump()));
  }
  std::string text;
  if (fields.read("grammar", text) && !text.empty()) use(fd::gbnf_grammar(text));
  if (fields.read("regex", text) && !text.empty()) use(fd::regex_grammar(text));
  return grammar;
}

/// @errors kInvalidOption, kTokenOutOfRange
std::vector<fd::TokenId> ids_of(const Json& array, int n_vocab) {
  const auto is_id = [](const Json& item) { return whole_number(item).has_value(); };
  if (!array.is_array() || !std::ranges::all_of(array, is_id)) {
    throw invalid("a prompt that is an array of other things", "ids of tokens, or texts");
  }
  std::vector<fd::TokenId> ids;
  for (const Json& item : array) {
    check_token(*whole_number(item), n_vocab);
    ids.push_back(item.get<fd::TokenId>());
  }
  return ids;
}

}  // namespace

const std::vector<fd::TokenId>& TextRequest::prompt_of(int text) const {
  return prompts[fd::idx(text / n)];
}

RequestReader::RequestReader(const fd::Tokenizer& tokenizer, std::string chat_format,
                             fd::Options defaults, int n_ctx)
    : tokenizer_(tokenizer),
      chat_format_(std::move(chat_format)),
      defaults_(std::move(defaults)),
      n_ctx_(n_ctx),
      n_vocab_(static_cast<int>(tokenizer.vocabulary().size())) {}

TextRequest RequestReader::chat(std::string_view body) const {
  const Json json = parsed(body);
  const Fields fields(json);
  TextRequest request{.chat = true};
  const auto messages = messages_of(fields);
  const fd::ChatTemplate turns = chat_template(tokenizer_, chat_format_);
  request.prompts = {encode_prompt(tokenizer_, fd::format_chat(turns, messages), true)};
  read_common(fields, request);
  bool logprobs = false;
  fields.read("logprobs", logprobs);
  int most = 0;
  fields.read("top_logprobs", most, 0, kMostLogprobs);
  if (most > 0 && !logprobs) {
    throw invalid("\"top_logprobs\" without \"logprobs\"", "\"logprobs\": true");
  }
  if (logprobs) request.options.logprobs = most;
  read_constraint(fields, &turns, request.options);
  check(request);
  return request;
}

TextRequest RequestReader::completion(std::string_view body) const {
  const Json json = parsed(body);
  const Fields fields(json);
  TextRequest request;
  const Json* const prompt = fields.find("prompt");
  if (prompt == nullptr) throw invalid("a request without \"prompt\"", "a text");
  const auto encoded = [&](const Json& text) {
    return encode_prompt(tokenizer_, text.get<std::string>(), true);
  };
  if (prompt->is_string()) {
    request.prompts = {encoded(*prompt)};
  } else if (!prompt->is_array()) {
    throw fields.refuse("prompt", "a text, an array of texts or ids of tokens");
  } else if (prompt->empty() || prompt->front().is_number()) {
    request.prompts = {ids_of(*prompt, n_vocab_)};
  } else if (prompt->size() > fd::idx(kMostTexts)) {
    throw too_many_texts();
  } else {
    for (const Json& item : *prompt) {
      request.prompts.push_back(item.is_string() ? encoded(item) : ids_of(item, n_vocab_));
    }
  }
  read_common(fields, request);
  int logprobs = 0;
  if (fields.read("logprobs", logprobs, 0, kMostLogprobs)) request.options.logprobs = logprobs;
  read_constraint(fields, nullptr, request.options);
  check(request);
  return request;
}

void RequestReader::read_common(const Fields& fields, TextRequest& request) const {
  refuse_unsupported(fields);
  request.options = defaults_;
  fields.read("n", request.n, 1, kMostTexts);
  int best_of = request.n;
  if (fields.read("best_of", best_of, 1) && best_of != request.n) {
    throw invalid("\"best_of\" that is not \"n\"", "as many as are sent back");
  }
  fields.read("return_tokens", request.tokens);
  read_lengths(fields, request.options);
  read_sampling(fields, request);
  read_stream(fields, request);
}

void RequestReader::read_lengths(const Fields& fields, fd::Options& options) const {
  std::optional<int> given;
  for (const char* const name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    // -1, until the context is full, is llama.cpp's.
    if (!fields.read(name, options.max_tokens, -1)) continue;
    if (given && *given != options.max_tokens) {
      throw invalid("several limits on tokens that differ", "one of them");
    }
    given = options.max_tokens;
  }
  fields.read("min_tokens", options.min_tokens, 0);
  fields.read("ignore_eos", options.ignore_end);
  options.stop = stops_of(fields, std::move(options.stop));
}

void RequestReader::read_sampling(const Fields& fields, TextRequest& request) const {
  fd::SamplingOptions& sampling = request.options.sampling;
  fields.read("temperature", sampling.temperature);
  fields.read("top_k", sampling.top_k, 0);
  fields.read("top_p", sampling.top_p);
  fields.read("min_p", sampling.min_p);
  fields.read("typical_p", sampling.typical_p);
  fields.read("presence_penalty", sampling.presence_penalty);
  fields.read("frequency_penalty", sampling.frequency_penalty);
  fields.read("repeat_penalty", sampling.repeat_penalty);
  fields.read("repeat_last_n", sampling.penalty_last_n, -1);
  // Clients send their defaults, too, and what has no effect would be refused: cuts at temperature 0,
  // what penalties look back on where there are none.
  if (sampling.greedy()) {
    sampling = sampling.ranking(0);
    sampling.temperature = 0.0f;
  }
  if (!sampling.penalises()) sampling.penalty_last_n = fd::SamplingOptions().penalty_last_n;
  auto biases = biases_of(fields, n_vocab_);
  if (!biases.empty()) sampling.logit_bias = std::move(biases);
  const Json* const seed = fields.find("seed");
  if (seed == nullptr) return;
  const bool may_be_negative = seed->is_number_integer() && !seed->is_number_unsigned();
  if (may_be_negative && *seed == -1) return;  // none, as llama.cpp has it
  if (!seed->is_number_unsigned() && !(may_be_negative && *seed >= 0)) {
    throw fields.refuse("seed", "a whole number from 0 on");
  }
  request.options.seed = seed->get<std::uint64_t>();
  request.seeded = true;
}

void RequestReader::read_stream(const Fields& fields, TextRequest& request) const {
  fields.read("stream", request.stream);
  const Json* const options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) throw invalid("\"stream_options\" without \"stream\"", "both");
  Fields(*options, "stream_options").read("include_usage", request.stream_usage);
}

void RequestReader::read_constraint(const Fields& fields, const fd::ChatTemplate* chat,
                                    fd::Options& options) const {
  auto grammar = grammar_of(fields);
  if (!grammar) return;
  std::call_once(pieces_once_, [this] { pieces_ = pieces_of(tokenizer_); });
  options.constraint = constrained(std::move(*grammar), tokenizer_, pieces_, chat);
}

/// Before anything is written, so that the answer is an error and nothing else.
void RequestReader::check(const TextRequest& request) const {
  if (request.prompts.size() > fd::idx(kMostTexts / request.n)) throw too_many_texts();
  for (const auto& prompt : request.prompts) {
    if (prompt.empty()) {
      throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a prompt without tokens", "at least one token");
    }
    if (prompt.size() >= fd::idx(n_ctx_)) {
      throw fd::Error(fd::ErrorCode::kContextOverflow,
                      "a prompt of " + std::to_string(prompt.size()) + " tokens",
                      "fewer than the " + std::to_string(n_ctx_) + " of the context",
                      "shorten it, or start the server with a greater -c");
    }
  }
  fd::check(request.options);
}

}  // namespace cli
