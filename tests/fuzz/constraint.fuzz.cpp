// Fuzzing what constraints are read from: patterns, grammars and schemas, and answers under them.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/regex.hpp>
#include <foredraft/core/error.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"
#include "fuzz/fuzz_main.hpp"

namespace {

namespace fd = foredraft;

constexpr std::string_view kRegexParts[] = {
    "a",     "b",       ".",   "[a-c]", "[^a]", "(", ")", "|",       "*",  "+", "?",   "{2}",
    "{1,3}", "{0,900}", "\\d", "\\w",   "(?:",  "^", "$", "\\u00e9", "\\", "]", "(?=", "\xC3\xA9"};
constexpr std::string_view kGbnfParts[] = {
    "root ::= ", "item ::= ", "\n",    "\"a\"", "\"\\n\"", "[a-z]", "[^\"]", "item",
    "root",      "(",         ")",     "|",     "*",       "+",     "?",     "{2,4}",
    "{8,30}",    "[ -~]",     "# x\n", "\"",    ".",       " ",     "<"};
constexpr std::string_view kSchemaParts[] = {"{",
                                             "}",
                                             "[",
                                             "]",
                                             ",",
                                             ":",
                                             "true",
                                             "false",
                                             "3",
                                             "\"type\":\"integer\"",
                                             "\"type\":\"string\"",
                                             "\"type\":\"object\"",
                                             "\"properties\":{\"a\":",
                                             "\"required\":[\"a\"]",
                                             "\"items\":{\"type\":\"null\"}",
                                             "\"anyOf\":[",
                                             "\"allOf\":[",
                                             "\"oneOf\":[",
                                             "{\"$ref\":\"#\"}",
                                             "\"enum\":[1,\"x\"]",
                                             "\"maxItems\":3",
                                             "\"minLength\":2",
                                             "\"pattern\":\"a+\"",
                                             "\"additionalProperties\":",
                                             "\"minimum\":7",
                                             "\"format\":\"date\"",
                                             "\"$defs\":{\"a\":",
                                             "{\"$ref\":\"#/$defs/a\"}"};

template <std::size_t n>
std::string any_of(fuzz::Choices& choices, const std::string_view (&parts)[n]) {
  std::string text;
  for (std::size_t left = choices.below(40); left > 0; --left) {
    text += choices.once_in(16) ? choices.text(4) : std::string(choices.pick(parts));
  }
  return text;
}

/// About half of the schemas are well formed.
std::string any_schema(fuzz::Choices& choices, int depth) {
  if (choices.once_in(16)) return any_of(choices, kSchemaParts);
  std::string text;
  const auto add = [&](const std::string& member) { text += (text.empty() ? "" : ",") + member; };
  static constexpr std::string_view kMembers[] = {"\"type\":\"integer\"",
                                                  "\"type\":\"string\"",
                                                  "\"type\":[\"object\",\"null\"]",
                                                  "\"enum\":[1,\"x\",{}]",
                                                  "\"maxItems\":3",
                                                  "\"minLength\":2",
                                                  "\"pattern\":\"^a|b$\"",
                                                  "\"required\":[\"a\"]",
                                                  "\"minimum\":-17",
                                                  "\"format\":\"date\"",
                                                  "\"$ref\":\"#\"",
                                                  "\"additionalProperties\":false",
                                                  "\"const\":\"y\"",
                                                  "\"exclusiveMaximum\":1000",
                                                  "\"minItems\":2"};
  for (std::size_t left = choices.below(4); left > 0; --left)
    add(std::string(choices.pick(kMembers)));
  static constexpr std::string_view kParts[] = {
      "\"properties\":{\"a\":", "\"properties\":{\"b\":true,\"a\":", "\"anyOf\":[{},",
      "\"allOf\":[true,",       "\"oneOf\":[{\"type\":\"null\"},",   "\"prefixItems\":[",
      "\"$defs\":{\"a\":"};
  if (depth < 6 && choices.flag()) {
    const std::string_view part = choices.pick(kParts);
    add(std::string(part) + any_schema(choices, depth + 1) +
        (part.find('[') < part.size() ? "]" : "}"));
  }
  if (depth < 6 && choices.flag()) add("\"items\":" + any_schema(choices, depth + 1));
  return "{" + text + "}";
}

const std::shared_ptr<const fd::PieceTrie>& tokens() {
  static const auto trie = std::make_shared<const fd::PieceTrie>(300, [](fd::TokenId token) {
    static constexpr std::string_view kLonger[] = {"\": ", "{\"", "aa", "ab", "\",", "12", "\n  "};
    if (token < 256) return std::string(1, static_cast<char>(token));
    const auto i = fd::idx(token) - 256;
    return std::string(i < std::size(kLonger) ? kLonger[i] : "");
  });
  return trie;
}

/// Write an answer, one token after the other.
void answer(const fd::GrammarConstraint& constraint, fuzz::Choices& choices) {
  auto state = constraint.start();
  for (int i = 0; i < 12; ++i) {
    const auto mask = constraint.mask(state);
    std::vector<fd::TokenId> allowed;
    mask->for_each([&](fd::TokenId token) { allowed.push_back(token); });
    // There is a token for each byte, so nothing leads to where no token can follow.
    fuzz::demand(constraint.finished(state) == allowed.empty(), "an end that is none");
    if (allowed.empty()) return;
    auto forced = state;
    for (const fd::TokenId token : constraint.forced(state, 4)) {
      const auto next = constraint.next(forced, token);
      fuzz::demand(next.has_value(), "a forced token that is forbidden");
      forced = *next;
    }
    const fd::TokenId token = allowed[choices.below(allowed.size())];
    const auto next = constraint.next(state, token);
    fuzz::demand(next.has_value(), "a mask that next() does not keep to");
    state = *next;
  }
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  try {
    const std::size_t kind = choices.below(3);
    const std::string text = kind == 0   ? any_of(choices, kRegexParts)
                             : kind == 1 ? "root ::= " + any_of(choices, kGbnfParts)
                                         : any_schema(choices, 0);
    const fd::Grammar grammar = kind == 0   ? fd::regex_grammar(text)
                                : kind == 1 ? fd::gbnf_grammar(text)
                                            : fd::json_schema_grammar(text);
    answer(fd::GrammarConstraint(grammar, tokens(), std::size_t{1} << 22), choices);
    return true;
  } catch (const fd::Error& error) {
    demand(error.code() == fd::ErrorCode::kInvalidConstraint, "another error for a constraint");
    return false;
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() { return noise(64, 160); }
