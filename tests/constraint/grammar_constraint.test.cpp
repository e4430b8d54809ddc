#include <foredraft/constraint/grammar_constraint.hpp>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"
#include "support/oracle_drafter.hpp"
#include "support/throws.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// An arbitrary grammar over a, b and c; some have no text or are left-recursive.
fd::Grammar arbitrary_grammar(std::mt19937& random) {
  fd::Grammar g;
  constexpr int kRules = 4;
  for (int rule = 0; rule < kRules; ++rule) g.declare("r" + std::to_string(rule));
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto byte = [&] { return g.text(std::string(1, static_cast<char>('a' + below(3)))); };
  for (int rule = 0; rule < kRules; ++rule) {
    std::vector<fd::Grammar::Expression> alternatives;
    for (int i = 0; i <= below(3); ++i) {
      std::vector<fd::Grammar::Expression> parts{byte()};
      for (int j = 0; j < below(4); ++j) {
        auto part = below(3) == 0 ? g.call(below(kRules)) : byte();
        if (below(3) == 0) {
          const int min = below(3);
          part = g.repeat(part, min, below(2) == 0 ? -1 : min + below(3));
        }
        parts.push_back(part);
      }
      alternatives.push_back(g.sequence(parts));
    }
    g.define(rule, g.either(alternatives));
  }
  g.set_root(0);
  return g;
}

const std::vector<std::string> kPieces{"a",  "b",   "c",   "ab", "ba",   "ca",  "abc", "cab",
                                       "aa", "bcb", "ccc", "",   "aabb", "bab", "acb", "<end>"};

/// Random texts, and at each token of them the mask beside what brute force finds.
void check_masks(const fd::Grammar& grammar, const std::vector<std::string>& pieces,
                 std::mt19937& random, int n_texts, int n_tokens) {
  const fd::GrammarConstraint constraint(grammar, trie_of(pieces));
  Texts texts(grammar);
  for (int i = 0; i < n_texts; ++i) {
    auto state = constraint.start();
    std::string text;
    for (int length = 0; length < n_tokens; ++length) {
      CAPTURE(text);
      const auto mask = constraint.mask(state);
      Tokens allowed;
      for (fd::TokenId token = 0; token < static_cast<int>(pieces.size()); ++token) {
        const std::string& piece = pieces[fd::idx(token)];
        const bool expected = !piece.empty() && texts.begins(text + piece);
        CHECK(mask->contains(token) == expected);
        if (expected) allowed.push_back(token);
      }
      if (allowed.empty()) break;
      const fd::TokenId token = allowed[random() % allowed.size()];
      text += pieces[fd::idx(token)];
      state = *constraint.next(state, token);
    }
  }
}

}  // namespace

TEST_CASE("masks are what brute force finds: for each token, whether its bytes go on") {
  std::mt19937 random(7);
  const auto trie = trie_of(kPieces);
  int grammars = 0;
  int masks = 0;
  for (int round = 0; round < 300; ++round) {
    const fd::Grammar grammar = arbitrary_grammar(random);
    std::unique_ptr<fd::GrammarConstraint> constraint;
    try {
      constraint = std::make_unique<fd::GrammarConstraint>(grammar, trie);
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
      continue;
    }
    ++grammars;
    Texts texts(grammar);
    auto state = constraint->start();
    std::string text;
    for (int length = 0; length < 12; ++length) try {
        const auto mask = constraint->mask(state);
        ++masks;
        CHECK(constraint->may_end(state) == texts.accepts(text));
        Tokens allowed;
        for (fd::TokenId token = 0; token < static_cast<int>(kPieces.size()); ++token) {
          const std::string& piece = kPieces[fd::idx(token)];
          const bool expected = !piece.empty() && texts.begins(text + piece);
          CHECK(mask->contains(token) == expected);
          CHECK(constraint->next(state, token).has_value() == expected);
          if (expected) allowed.push_back(token);
        }
        CHECK(constraint->finished(state) == (allowed.empty() && texts.accepts(text)));
        if (allowed.empty()) break;
        const fd::TokenId token = allowed[random() % allowed.size()];
        text += kPieces[fd::idx(token)];
        state = *constraint->next(state, token);
      } catch (const fd::Error& error) {  // read in too many ways
        CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
        break;
      }
  }
  CHECK(grammars > 150);
  CHECK(masks > 1000);
}

TEST_CASE("inside strings, bounded or not, masks are what brute force finds") {
  const std::vector<std::string> pieces{
      "a",        "ab",     "abc",  "\xC3\xA9", "\xC3", "\xA9", "x\xC3\xA9y", "\xE4\xB8\xAD",
      "\"",       "a\"",    "\", ", "\":",      "{\"",  "\\",   "\\n",        "\n",
      "a\n",      "aaaaaa", "}",    "]",        "\"}",  "[\"",  " ",          "12",
      "\xE4\xB8", "\xAD\"", "",     "<",        "<<<",  "t"};
  std::mt19937 random(9);
  for (
      const char* schema :
      {R"({"type":"string","maxLength":7})", R"({"type":"string","minLength":3,"maxLength":9})",
       R"({"type":"array","items":{"type":"string","minLength":2},"maxItems":3})", "{}",
       R"({"properties":{"ab":{"type":"string","maxLength":40}},"additionalProperties":{"type":"string"}})",
       R"({"type":"string","pattern":"^[^<]{0,30}$"})",
       R"({"type":"string","pattern":"^[a-z]{2,40}(12|<)?$"})",
       R"({"type":"string","pattern":"^([a-zA-Z]{0,9}[ab]{0,9} ){2}$"})",
       R"({"type":"string","pattern":"a.{3}b"})"}) {
    const fd::Grammar grammar = fd::json_schema_grammar(schema);
    CAPTURE(schema);
    check_masks(grammar, pieces, random, 40, 14);
  }
}

TEST_CASE("characters that are counted are of several kinds, alike and not") {
  const std::vector<std::string> pieces{
      "a", "ab", "abc", "x\xC3\xA9", "\xC3", "\xA9", "\"", "a\"", "\"a", "\\", "\n", "a\n",
      " ", " a", "-",   "a-",        "ab-1", "1",    "12", "A",   "aA",  "",   "~",  "\x7F"};
  std::mt19937 random(3);
  for (const char* rule : {R"(root ::= "\"" [^\n]{1,80})", R"(root ::= [ -~]{8,20} "\n")",
                           R"(root ::= .{8,30} "x")", R"(root ::= ([a-z]{2,40} "-")+ [0-9]{1,9})",
                           R"(root ::= [a-zA-Z]{0,9} [a-z]{8,9} "-" [^a]{8,9})"}) {
    const fd::Grammar grammar = fd::gbnf_grammar(rule);
    CHECK_FALSE(fd::Automaton(grammar).counted().empty());
    CAPTURE(rule);
    check_masks(grammar, pieces, random, 30, 20);
  }
}

TEST_CASE("a token may span rules, and be a part of a character") {
  fd::Grammar g;
  const auto quoted =
      g.rule("quoted", g.sequence({g.text("\""), g.text("\xC3\xA9"), g.text("\"")}));
  g.set_root(g.rule("list", g.sequence({g.call(quoted), g.text(", "), g.call(quoted)})));
  const std::vector<std::string> pieces{"\"", "\xC3", "\xA9", "\xA9\", \"\xC3", "\xA8", ", "};
  const fd::GrammarConstraint constraint(g, trie_of(pieces));
  auto state = constraint.start();
  CHECK(constraint.mask(state)->size() == 1);
  state = *constraint.next(*constraint.next(state, 0), 1);
  CHECK(constraint.mask(state)->contains(2));
  CHECK(constraint.mask(state)->contains(3));
  CHECK_FALSE(constraint.mask(state)->contains(4));
  state = *constraint.next(*constraint.next(*constraint.next(state, 3), 2), 0);
  CHECK(constraint.finished(state));
}

TEST_CASE("what is forced is spelled, up to where it is open") {
  const std::vector<std::string> pieces{"{", "\"", "name", "na", "me", "\":", "{\"", "a", "b", "}"};
  fd::Grammar g;
  g.set_root(g.rule("object", g.sequence({g.text("{\"name\":"),
                                          g.either({g.text("a"), g.text("b")}), g.text("}")})));
  const fd::GrammarConstraint constraint(g, trie_of(pieces));
  CHECK(constraint.forced(constraint.start(), 8) == Tokens{6, 2, 5});
  CHECK(constraint.forced(constraint.start(), 2) == Tokens{6, 2});
  auto state = *constraint.next(*constraint.next(*constraint.next(constraint.start(), 6), 3), 4);
  CHECK(constraint.forced(state, 8) == Tokens{5});  // behind another way to spell it
  state = *constraint.next(state, 5);
  CHECK(constraint.forced(state, 8).empty());
  CHECK(constraint.forced(*constraint.next(state, 7), 8) == Tokens{9});
}

TEST_CASE("a grammar that no token can begin is refused before anything is generated") {
  fd::Grammar g;
  g.set_root(g.rule("r", g.text("xyz")));
  CHECK(code_of([&] { fd::GrammarConstraint(g, trie_of(kPieces)); }) ==
        fd::ErrorCode::kInvalidConstraint);
}

TEST_CASE("states go on when what is kept was thrown away") {
  fd::Grammar g;
  const auto pair = g.declare("pair");
  g.define(pair, g.sequence({g.text("a"), g.optional(g.call(pair)), g.text("b")}));
  g.set_root(pair);
  const fd::GrammarConstraint forgetful(g, trie_of(kPieces), 1);
  const fd::GrammarConstraint keeping(g, trie_of(kPieces));
  auto a = forgetful.start();
  auto b = keeping.start();
  for (int i = 0; i < 100; ++i) {
    CHECK(*forgetful.mask(a) == *keeping.mask(b));
    const fd::TokenId token = i < 50 ? 0 : 1;
    a = *forgetful.next(a, token);
    b = *keeping.next(b, token);
  }
  CHECK(forgetful.finished(a));
  CHECK(keeping.finished(b));
}

TEST_CASE("under a grammar the text is the plain one, with any draft and depth") {
  std::mt19937 random(3);
  const auto trie = trie_of(kPieces);
  int ended = 0;
  for (int round = 0; round < 40; ++round) {
    toy::Target target(16, 0, 3.0, 1 + static_cast<std::uint32_t>(round));
    target.pieces = kPieces;
    target.end_token = 15;
    fd::Options options{.max_tokens = 30, .n_draft = 0};
    try {
      options.constraint = fd::GrammarConstraint(arbitrary_grammar(random), trie);
    } catch (const fd::Error&) {
      continue;
    }
    fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::Greedy{}};
    const Tokens prompt{1, 2};
    const fd::Result expected = plain.generate(prompt, options);
    ended += expected.finish_reason == fd::FinishReason::kEnd;
    Tokens truth = prompt;
    truth.insert(truth.end(), expected.tokens.begin(), expected.tokens.end());
    truth.push_back(15);
    for (const int depth : {1, 2, 3, 5, 8, 16}) {
      options.n_draft = depth;
      fd::Decoder decoder{target, toy::TokenCache{}, OracleDrafter::sweeping(truth, 16, 2),
                          fd::Greedy{}};
      const fd::Result result = decoder.generate(prompt, options);
      CHECK(result.text == expected.text);
      CHECK(result.finish_reason == expected.finish_reason);
      fd::Decoder forced{target, toy::TokenCache{}, fd::ForcedTokens{}, fd::Greedy{}};
      CHECK(forced.generate(prompt, options).text == expected.text);
    }
  }
  CHECK(ended > 5);
}
