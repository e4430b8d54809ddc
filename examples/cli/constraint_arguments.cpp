#include "constraint_arguments.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/regex.hpp>
#include <foredraft/constraint/triggered_grammar.hpp>

#include "arguments.hpp"
#include "thinking.hpp"

namespace cli {

namespace {

/// A schema begins with a brace, or is a boolean; anything else is the name of a file.
bool is_schema(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && (text[begin] == '{' || text == "true" || text == "false");
}

/// Of a token as masks spell it, which is what texts hold but for control tokens.
std::string bytes_of(fd::TokenId token, const fd::Tokenizer& tokenizer) {
  const std::string_view piece = tokenizer.piece(token);
  return piece.empty() ? fd::control_bytes(token) : std::string(piece);
}
/// Of a text, in which control tokens may stand.
std::string marker_bytes(std::string_view text, const fd::Tokenizer& tokenizer) {
  std::string bytes;
  bool controls = false;
  for (const fd::TokenId token :
       tokenizer.encode(text, {.parse_special = true, .continues = true})) {
    controls = controls || tokenizer.piece(token).empty();
    bytes += bytes_of(token, tokenizer);
  }
  // Without control tokens the text itself: what is encoded may spell other bytes.
  return controls ? bytes : std::string(text);
}

}  // namespace

void ConstraintArguments::add_to(CLI::App& command) {
  require_text(add_value(command, "--grammar TEXT", grammar_text_,
                         "the answer is a text of this grammar, in GBNF"));
  require_text(add_value(command, "--grammar-file FILE", grammar_file_, "the same from a file"));
  require_text(add_value(command, "-j,--json-schema SCHEMA|FILE", schema_,
                         "the answer is JSON that is valid under this schema; {} is any JSON"));
  require_text(add_value(command, "--regex PATTERN", pattern_,
                         "the whole answer matches this regular expression"));
  command
      .add_option("--grammar-trigger", triggers_,
                  "the constraint begins behind this text, and all before it is free; of several "
                  "the first that is written counts; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_flag("--grammar-repeat", repeat_,
                   "behind what the constraint asks for the answer is free again, up to the next "
                   "trigger");
}

bool ConstraintArguments::given() const noexcept {
  return !grammar_text_.empty() || !grammar_file_.empty() || !schema_.empty() || !pattern_.empty();
}

void ConstraintArguments::read() {
  const std::pair<const char*, const std::string*> all[] = {{"--grammar", &grammar_text_},
                                                            {"--grammar-file", &grammar_file_},
                                                            {"--json-schema", &schema_},
                                                            {"--regex", &pattern_}};
  const char* first = nullptr;
  for (const auto& [name, value] : all) {
    if (value->empty()) continue;
    if (first != nullptr) {
      throw UsageError(std::string(first) + " with " + name, "one of them",
                       "leave one of them out");
    }
    first = name;
  }
  if (!triggers_.empty() && first == nullptr) {
    throw UsageError("--grammar-trigger without a constraint", "one that it begins",
                     "add --grammar, --grammar-file, --json-schema or --regex");
  }
  if (std::ranges::find(triggers_, "") != triggers_.end()) {
    throw UsageError("--grammar-trigger without text", "at least one character",
                     "the constraint begins at once where there is no trigger");
  }
  if (repeat_ && triggers_.empty()) {
    throw UsageError("--grammar-repeat without --grammar-trigger", "a trigger to wait for",
                     "leave it out, or name one");
  }
  if (!grammar_text_.empty()) grammar_ = fd::gbnf_grammar(grammar_text_);
  if (!grammar_file_.empty()) grammar_ = fd::gbnf_grammar(read_text_file(grammar_file_));
  if (!schema_.empty()) {
    grammar_ = fd::json_schema_grammar(is_schema(schema_) ? schema_ : read_text_file(schema_));
  }
  if (!pattern_.empty()) grammar_ = fd::regex_grammar(pattern_);
  if (grammar_) fd::Automaton{*grammar_};  // what no text satisfies is refused now
}

std::shared_ptr<const fd::PieceTrie> pieces_of(const fd::Tokenizer& tokenizer) {
  return std::make_shared<const fd::PieceTrie>(
      static_cast<int>(tokenizer.vocabulary().size()),
      [&](fd::TokenId token) { return bytes_of(token, tokenizer); });
}

fd::AnyConstraint constrained(fd::Grammar grammar, const fd::Tokenizer& tokenizer,
                              std::shared_ptr<const fd::PieceTrie> pieces,
                              const fd::ChatTemplate* chat) {
  if (const auto* markers = chat != nullptr ? thinking_markers(tokenizer) : nullptr) {
    const bool begun = begins_thinking(*chat, *markers);
    grammar =
        fd::behind_thinking(std::move(grammar), begun ? "" : marker_bytes(markers->open, tokenizer),
                            marker_bytes(markers->close, tokenizer));
  }
  return fd::GrammarConstraint(grammar, std::move(pieces));
}

fd::AnyConstraint ConstraintArguments::constraint(const fd::Tokenizer& tokenizer,
                                                  const fd::ChatTemplate* chat) const {
  if (!grammar_) return {};
  if (triggers_.empty()) return constrained(*grammar_, tokenizer, pieces_of(tokenizer), chat);
  // Before a trigger all is free, and thoughts need no place of their own.
  fd::Trigger trigger{.repeat = repeat_};
  for (const auto& text : triggers_) trigger.texts.push_back(marker_bytes(text, tokenizer));
  return constrained(fd::triggered_grammar(*grammar_, trigger), tokenizer, pieces_of(tokenizer),
                     nullptr);
}

}  // namespace cli
