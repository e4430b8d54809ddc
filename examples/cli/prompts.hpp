#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <foredraft/io/chat_format.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "usage.hpp"

namespace cli {

/// One turn of a chat.
/// @param raw  the prompt as it is
/// @param format  of the turn, by name; empty: that with which the model was trained
std::vector<fd::TokenId> encode_prompt(const fd::Tokenizer& tokenizer, std::string text, bool raw,
                                       const std::string& format = {});

/// The turns that `format` names, or those with which the model was trained.
/// @errors kUnsupportedModel where its template is not known
fd::ChatTemplate chat_template(const fd::Tokenizer& tokenizer, const std::string& format);

/// Prompts of a file: paragraphs, with empty lines between, or, where its name ends in .jsonl,
/// lines of JSON objects whose field `prompt` is one each. Errors name the file and the line.
/// @errors kIo, kCorruptFile for a file that is no text or a line without a prompt, kEmptyPrompt
std::vector<std::string> read_prompts(const std::string& file);

/// The same of its content.
std::vector<std::string> parse_paragraphs(std::string_view text);
std::vector<std::string> parse_json_lines(std::string_view text);

}  // namespace cli
