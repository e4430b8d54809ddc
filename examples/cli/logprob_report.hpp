#pragma once

#include <span>
#include <string>

#include <foredraft/core/result.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "output.hpp"
#include "usage.hpp"

namespace cli {

/// [[id, logprob], ...]
Json to_json(std::span<const fd::TokenLogprob> ranking);

/// [{"id", "logprob", "top"}, ...], one for each token of the text.
Json logprobs_to_json(const fd::Result& result);

/// The tokens and their values behind one another, as a part of a line.
std::string row_of(const fd::Tokenizer& tokenizer, std::span<const fd::TokenLogprob> ranking);

/// One line for each token of the text.
std::string logprob_table(const fd::Tokenizer& tokenizer, const fd::Result& result);

}  // namespace cli
