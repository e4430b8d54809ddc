#include "logprob_report.hpp"

#include <cstddef>

#include "terminal.hpp"

namespace cli {

namespace {

/// A token and its value, in a table.
std::string entry(const fd::Tokenizer& tokenizer, const fd::TokenLogprob& token) {
  return "  " + excerpt(tokenizer.piece(token.token, true), 30) +
         formatted(" %.4f", static_cast<double>(token.logprob));
}

}  // namespace

Json to_json(std::span<const fd::TokenLogprob> ranking) {
  Json pairs = Json::array();
  for (const auto& [token, logprob] : ranking) {
    // A float in the digits that give it back: as a double it would have twice as many.
    pairs.push_back(Json::array({token, shortest(logprob)}));
  }
  return pairs;
}

Json logprobs_to_json(const fd::Result& result) {
  Json all = Json::array();
  for (std::size_t i = 0; i < result.logprobs.size(); ++i) {
    const fd::Logprobs& token = result.logprobs[i];
    all.push_back({{"id", result.tokens[i]},
                   {"logprob", shortest(token.logprob)},
                   {"top", to_json(token.top)}});
  }
  return all;
}

std::string row_of(const fd::Tokenizer& tokenizer, std::span<const fd::TokenLogprob> ranking) {
  std::string row;
  for (const fd::TokenLogprob& token : ranking) row += entry(tokenizer, token);
  return row;
}

std::string logprob_table(const fd::Tokenizer& tokenizer, const fd::Result& result) {
  std::string table;
  for (std::size_t i = 0; i < result.logprobs.size(); ++i) {
    const fd::Logprobs& token = result.logprobs[i];
    table += std::to_string(i) + entry(tokenizer, {result.tokens[i], token.logprob});
    if (!token.top.empty()) table += "  of" + row_of(tokenizer, token.top);
    table += '\n';
  }
  return table;
}

}  // namespace cli
