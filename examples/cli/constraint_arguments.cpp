#include "constraint_arguments.hpp"

#include <memory>
#include <utility>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/piece_trie.hpp>
#include <foredraft/constraint/regex.hpp>

#include "arguments.hpp"

namespace cli {

namespace {

/// A schema begins with a brace, or is a boolean; anything else is the name of a file.
bool is_schema(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && (text[begin] == '{' || text == "true" || text == "false");
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
  if (!grammar_text_.empty()) grammar_ = fd::gbnf_grammar(grammar_text_);
  if (!grammar_file_.empty()) grammar_ = fd::gbnf_grammar(read_text_file(grammar_file_));
  if (!schema_.empty()) {
    grammar_ = fd::json_schema_grammar(is_schema(schema_) ? schema_ : read_text_file(schema_));
  }
  if (!pattern_.empty()) grammar_ = fd::regex_grammar(pattern_);
  if (grammar_) fd::Automaton{*grammar_};  // what no text satisfies is refused now
}

fd::AnyConstraint ConstraintArguments::constraint(const fd::Tokenizer& tokenizer) const {
  if (!grammar_) return {};
  const auto trie = std::make_shared<const fd::PieceTrie>(
      static_cast<int>(tokenizer.vocabulary().size()),
      [&](fd::TokenId token) { return std::string(tokenizer.piece(token)); });
  return fd::GrammarConstraint(*grammar_, trie);
}

}  // namespace cli
