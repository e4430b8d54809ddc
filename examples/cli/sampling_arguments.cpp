#include "sampling_arguments.hpp"
#include "thinking.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace cli {

namespace {

constexpr int kMostCount = std::numeric_limits<int>::max();

using Named = std::pair<std::string_view, fd::Sampler>;
/// In the order of fd::Sampler, which is the default: --help shows it as such.
constexpr std::array kSamplerNames{Named{"penalties", fd::Sampler::kPenalties},
                                   Named{"dry", fd::Sampler::kDry},
                                   Named{"temperature", fd::Sampler::kTemperature},
                                   Named{"top_k", fd::Sampler::kTopK},
                                   Named{"typ_p", fd::Sampler::kTypicalP},
                                   Named{"top_p", fd::Sampler::kTopP},
                                   Named{"min_p", fd::Sampler::kMinP},
                                   Named{"top_n_sigma", fd::Sampler::kTopNSigma},
                                   Named{"xtc", fd::Sampler::kXtc}};

std::string names_of_samplers() {
  std::string list;
  for (const auto& [name, sampler] : kSamplerNames) {
    list += (list.empty() ? "" : ";") + std::string(name);
  }
  return list;
}

fd::Sampler sampler_named(const std::string& name, const std::string& list) {
  const auto known = std::ranges::find(kSamplerNames, name, &Named::first);
  if (known != kSamplerNames.end()) return known->second;
  throw UsageError("--samplers " + list, "names of " + names_of_samplers() + " with ; between",
                   "'" + name + "' is none");
}

/// "15043+1.5", "15043-1" or "15043-inf". @errors UsageError
fd::LogitBias bias_of(const std::string& text) {
  fd::LogitBias bias;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.token);
  const bool sign = id.ec == std::errc() && id.ptr != end && (*id.ptr == '+' || *id.ptr == '-');
  // from_chars knows no '+'.
  const auto value = std::from_chars(sign && *id.ptr == '+' ? id.ptr + 1 : id.ptr, end, bias.bias);
  if (sign && bias.token >= 0 && value.ec == std::errc() && value.ptr == end) return bias;
  throw UsageError("--logit-bias " + text, "ID+BIAS or ID-BIAS, such as 15043+1 or 15043-inf",
                   "'foredraft tokenize' shows the ids of a text");
}

/// All tokens whose bytes hold the text: what DRY's breakers stand for.
void add_tokens_with(const std::string& text, const fd::Tokenizer& tokenizer,
                     std::vector<std::vector<fd::TokenId>>& sequences) {
  const auto n_vocab = static_cast<fd::TokenId>(tokenizer.vocabulary().size());
  for (fd::TokenId id = 0; id < n_vocab; ++id) {
    if (tokenizer.piece(id).find(text) != std::string_view::npos) sequences.push_back({id});
  }
}

std::vector<fd::TokenId> encoded(std::string_view text, const fd::Tokenizer& tokenizer) {
  return tokenizer.encode(text, {.parse_special = true, .continues = true});
}

}  // namespace

void SamplingArguments::add_to(CLI::App& command, fd::Options& options) {
  add_others(command, options.sampling);
  add_dry(command, options.sampling);
  command
      .add_option("-l,--logit-bias", biases_,
                  "added to the logit of a token, such as 15043+1 or 15043-inf; may be repeated")
      ->type_name("ID+BIAS")
      ->allow_extra_args(false);
  command
      .add_option(
          "--bad-word", bad_words_,
          "a text whose tokens must not come one behind the other, with and without a space "
          "before it; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  require_text(
      add_value(command, "--samplers LIST", samplers_,
                "order of the samplers, names with ; between [" + names_of_samplers() + "]"));
  add_number(command, "--min-tokens N", options.min_tokens, 0, kMostCount,
             "no end token comes before so many tokens [0]");
  add_reasoning(command, options.sampling);
}

void SamplingArguments::add_others(CLI::App& command, fd::SamplingOptions& sampling) {
  add_value(command, "--typical P", sampling.typical_p,
            "keep the tokens that are most nearly as surprising as expected, until they reach this "
            "probability [1]");
  add_value(command, "--top-nsigma N", sampling.top_n_sigma,
            "keep logits within N standard deviations of the best; 0: all [0]");
  add_value(command, "--xtc-probability P", sampling.xtc_probability,
            "how often the likeliest tokens are dropped, all but the last that reaches the "
            "threshold [0]");
  add_value(command, "--xtc-threshold P", sampling.xtc_threshold,
            "probability that makes a token one of them [0.1]");
  add_value(command, "--dynatemp-range R", sampling.dynatemp_range,
            "the temperature is between --temp - R and --temp + R, by how unsure the model is [0]");
  add_value(command, "--dynatemp-exp X", sampling.dynatemp_exponent,
            "exponent of how unsure it is [1]");
  add_number(command, "--mirostat N", sampling.mirostat, 0, 2,
             "2: the tokens that surprise least, so that a text surprises as much as asked for, in "
             "place of the other ways to keep some; 0: no [0]");
  add_value(command, "--mirostat-ent BITS", sampling.mirostat_tau, "that surprise, tau [5]");
  add_value(command, "--mirostat-lr X", sampling.mirostat_eta, "how fast it adapts, eta [0.1]");
}

void SamplingArguments::add_dry(CLI::App& command, fd::SamplingOptions& sampling) {
  add_value(command, "--dry-multiplier X", sampling.dry_multiplier,
            "penalty of a token that makes a repetition of the allowed length longer; 0: none [0]");
  add_value(command, "--dry-base X", sampling.dry_base,
            "grows so many times with each token of the repetition [1.75]");
  add_number(command, "--dry-allowed-length N", sampling.dry_allowed_length, 1, kMostCount,
             "tokens that may be repeated [2]");
  add_number(command, "--dry-penalty-last-n N", sampling.dry_penalty_last_n, -1, kMostCount,
             "tokens that DRY looks back on; -1: all [-1]");
  command
      .add_option("--dry-sequence-breaker", breakers_,
                  "no repetition reaches across a token with this text; may be repeated; none: no "
                  "breaker [newline, colon, quotation mark and asterisk]")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

void SamplingArguments::add_reasoning(CLI::App& command, fd::SamplingOptions& sampling) {
  std::vector<std::string> formats;
  for (const ThinkingMarkers& markers : kThinkingMarkers) formats.emplace_back(markers.format);
  add_number(command, "--reasoning-budget N", sampling.reasoning.tokens, -1, kMostCount,
             "tokens that a model may think before its answer; -1: as many as it likes [-1]");
  require_text(add_value(command, "--reasoning-budget-message TEXT", message_,
                         "said where the budget ends the thinking part"));
  add_choice(command, "--reasoning-format NAME", reasoning_format_, formats,
             "how the part is marked: deepseek (<think>), mistral ([THINK]) [what is one token of "
             "the model]");
}

void SamplingArguments::resolve(fd::Options& options) const {
  std::vector<fd::LogitBias> biases;
  for (const std::string& text : biases_) biases.push_back(bias_of(text));
  options.sampling.logit_bias = std::move(biases);
  std::vector<fd::Sampler> samplers;
  for (std::size_t begin = 0; !samplers_.empty() && begin <= samplers_.size();) {
    const std::size_t end = std::min(samplers_.find(';', begin), samplers_.size());
    samplers.push_back(sampler_named(samplers_.substr(begin, end - begin), samplers_));
    begin = end + 1;
  }
  options.sampling.samplers = std::move(samplers);
  if (!breakers_.empty() && options.sampling.dry_multiplier == 0.0f) {
    throw UsageError("--dry-sequence-breaker without --dry-multiplier", "a multiplier above 0",
                     "without it a breaker has no effect");
  }
  const bool budget = options.sampling.reasoning.tokens >= 0;
  if (!budget && !(message_.empty() && reasoning_format_.empty())) {
    throw UsageError("a message or format of reasoning without --reasoning-budget", "a budget",
                     "without it they have no effect");
  }
}

void SamplingArguments::complete(fd::Options& options, const fd::Tokenizer& tokenizer) const {
  fd::SamplingOptions& sampling = options.sampling;
  std::vector<std::vector<fd::TokenId>> words;
  for (const std::string& text : bad_words_) {
    // Within a text a word begins with its space, which makes other tokens of it.
    for (const std::string& spelled : {text, " " + text}) {
      auto tokens = encoded(spelled, tokenizer);
      if (!tokens.empty()) words.push_back(std::move(tokens));
    }
  }
  sampling.bad_words = std::move(words);
  if (sampling.dry_multiplier != 0.0f) {
    const std::vector<std::string> usual{"\n", ":", "\"", "*"};
    std::vector<std::vector<fd::TokenId>> sequences;
    const bool none = breakers_.size() == 1 && breakers_[0] == "none";
    for (const std::string& text : breakers_.empty() ? usual : breakers_) {
      if (!none) add_tokens_with(text, tokenizer, sequences);
    }
    sampling.dry_breakers = std::move(sequences);
  }
  if (sampling.reasoning.tokens < 0) return;
  const ThinkingMarkers* markers = thinking_markers(tokenizer);
  // A format that is named counts even where its markers are several tokens each.
  for (const ThinkingMarkers& known : kThinkingMarkers) {
    if (known.format == reasoning_format_) markers = &known;
  }
  if (markers != nullptr) {
    sampling.reasoning.open = encoded(markers->open, tokenizer);
    sampling.reasoning.close = encoded(markers->close, tokenizer);
    sampling.reasoning.message =
        message_.empty() ? std::vector<fd::TokenId>{} : encoded(message_, tokenizer);
    return;
  }
  throw UsageError("--reasoning-budget for a model without a token that opens a thinking part",
                   "--reasoning-format", "name the markers that the model was trained with");
}

}  // namespace cli
