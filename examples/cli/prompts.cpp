#include "prompts.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <foredraft/core/utf8.hpp>

#include "arguments.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

/// The next line, without its end; `text` begins behind it then.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

fd::Error corrupt(const std::string& found, const std::string& expected) {
  return {fd::ErrorCode::kCorruptFile, found, expected,
          "paragraphs with empty lines between, or NAME.jsonl with {\"prompt\": \"...\"} on each "
          "line"};
}

}  // namespace

fd::ChatTemplate chat_template(const fd::Tokenizer& tokenizer, const std::string& named) {
  if (const auto format = fd::chat_format_of(named)) {
    fd::ChatTemplate chat;
    chat.format = *format;
    return chat;
  }
  return fd::recognize_chat_template(tokenizer.vocabulary().chat_template());
}

std::vector<fd::TokenId> encode_prompt(const fd::Tokenizer& tokenizer, std::string text, bool raw,
                                       const std::string& format) {
  if (!raw) {
    const fd::ChatMessage message{"user", std::move(text)};
    text = fd::format_chat(chat_template(tokenizer, format), {&message, 1});
  }
  return tokenizer.encode(text, {.add_bos = true, .parse_special = true});
}

std::vector<std::string> parse_paragraphs(std::string_view text) {
  std::vector<std::string> prompts;
  bool inside = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const bool ends = blank(line);
    if (!ends && !inside) prompts.emplace_back();
    if (!ends) prompts.back() += (inside ? "\n" : "") + std::string(line);
    inside = !ends;
  }
  return prompts;
}

std::vector<std::string> parse_json_lines(std::string_view text) {
  std::vector<std::string> prompts;
  for (int n = 1; !text.empty(); ++n) {
    const std::string_view line = take_line(text);
    if (blank(line)) continue;
    const std::string where = "line " + std::to_string(n) + ": ";
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) throw corrupt(where + excerpt(line, 40), "a JSON object");
    const auto prompt = json.is_object() ? json.find("prompt") : json.end();
    if (!json.is_object() || prompt == json.end() || !prompt->is_string() ||
        prompt->get_ref<const std::string&>().empty()) {
      throw corrupt(where + excerpt(line, 40), "an object with a text as \"prompt\"");
    }
    prompts.push_back(*prompt);
  }
  return prompts;
}

std::vector<std::string> read_prompts(const std::string& file) {
  const std::string text = read_text_file(file);
  std::vector<std::string> prompts;
  try {
    // A zero byte is valid UTF-8, but a file that has one is no text.
    const std::size_t valid = fd::valid_utf8_prefix(text);
    const std::size_t bad = std::min(valid, text.find('\0'));
    if (bad < text.size()) {
      throw corrupt("no text: byte " + std::to_string(bad) + " belongs to no character",
                    "prompts in UTF-8");
    }
    prompts = file.ends_with(".jsonl") ? parse_json_lines(text) : parse_paragraphs(text);
    if (prompts.empty()) {
      throw fd::Error(fd::ErrorCode::kEmptyPrompt, "a file without prompts", "at least one",
                      "paragraphs with empty lines between, or NAME.jsonl");
    }
  } catch (const fd::Error& error) {
    throw error_in("'" + visible(file) + "'", error);
  }
  return prompts;
}

}  // namespace cli
