// Answers questions about constraints, one a line, for the scripts beside it: they compare with other
// implementations and are run by hand. support.py compiles it.
//
//   vocabulary N          then N lines, the bytes of a token each, in hexadecimal digits
//   grammar KIND HEX      schema, gbnf or regex           -> ok, or error and a message
//   text HEX              -> accepted, begins (some text does so), or refused
//   mask ID ...           behind these tokens -> 1 or 0 (the text may end), and the allowed tokens
//   forced ID ...         -> tokens
#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/regex.hpp>

#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace fd = foredraft;

namespace {

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(&digits[i], &digits[i] + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

fd::Grammar grammar_of(const std::string& kind, const std::string& text) {
  if (kind == "schema") return fd::json_schema_grammar(text);
  return kind == "gbnf" ? fd::gbnf_grammar(text) : fd::regex_grammar(text);
}

class Questions {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "vocabulary") return read_vocabulary(words);
    if (what == "grammar") return read_grammar(words);
    std::string hex;
    if (what == "text") return words >> hex, verdict(from_hex(hex));
    auto state = constraint_->start();
    for (fd::TokenId token; words >> token;) {
      const auto next = constraint_->next(state, token);
      if (!next) return "dead";
      state = *next;
    }
    std::ostringstream out;
    if (what == "mask") {
      out << constraint_->may_end(state);
      constraint_->mask(state)->for_each([&](fd::TokenId token) { out << ' ' << token; });
    } else {
      for (const fd::TokenId token : constraint_->forced(state, 64)) out << token << ' ';
    }
    return out.str();
  }

 private:
  std::string read_vocabulary(std::istream& words) {
    int n = 0;
    words >> n;
    std::vector<std::string> pieces(fd::idx(n));
    for (std::string& piece : pieces) {
      std::getline(std::cin, piece);
      piece = from_hex(piece);
    }
    trie_ = std::make_shared<const fd::PieceTrie>(
        n, [&](fd::TokenId token) { return pieces[fd::idx(token)]; });
    return "ok";
  }

  std::string read_grammar(std::istream& words) {
    std::string kind, hex;
    words >> kind >> hex;
    const fd::Grammar grammar = grammar_of(kind, from_hex(hex));
    states_.emplace(std::make_shared<const fd::Automaton>(grammar));
    if (trie_) constraint_.emplace(grammar, trie_);
    return "ok";
  }

  std::string verdict(const std::string& text) {
    int state = states_->start();
    for (const char c : text) {
      state = states_->step(state, static_cast<unsigned char>(c));
      if (state < 0) return "refused";
    }
    return states_->may_end(state) ? "accepted" : "begins";
  }

  std::shared_ptr<const fd::PieceTrie> trie_;
  std::optional<fd::PushdownStates> states_;
  std::optional<fd::GrammarConstraint> constraint_;
};

}  // namespace

int main() {
  Questions questions;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = questions.answer(line);
    } catch (const fd::Error& error) {
      answer = std::string("error ") + error.what();
      for (char& c : answer) c = c == '\n' ? ' ' : c;
    }
    std::cout << answer << std::endl;
  }
}
