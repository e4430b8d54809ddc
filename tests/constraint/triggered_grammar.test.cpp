#include <foredraft/constraint/triggered_grammar.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/constraint/gbnf.hpp>
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_grammar.hpp>
#include <foredraft/constraint/regex.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/testing/drafts.hpp>

#include "support/catch.hpp"
#include "support/exact_law.hpp"
#include "support/function_policies.hpp"
#include "support/grammar_text.hpp"
#include "support/oracle_drafter.hpp"
#include "support/throws.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// What comes behind a trigger in these tests.
const std::string kInner = "aab";

/// By definition: the text goes on to one where each trigger is followed by kInner.
bool may_become(std::string_view text, std::string_view trigger, bool repeat) {
  for (;;) {
    const std::size_t at = text.find(trigger);
    if (at == text.npos) return true;
    text.remove_prefix(at + trigger.size());
    if (text.size() <= kInner.size()) return std::string_view(kInner).starts_with(text);
    if (!repeat || !text.starts_with(kInner)) return false;
    text.remove_prefix(kInner.size());
  }
}

fd::Grammar triggered(const std::string& trigger, bool repeat) {
  return fd::triggered_grammar(fd::regex_grammar(kInner), {{trigger}, false, repeat});
}

}  // namespace

TEST_CASE("behind a trigger the text is constrained, wherever tokens begin and end") {
  const std::vector<std::string> pieces{"a", "b", "ab", "ba", "aa", "bb", "baab", "abaa", "c"};
  const auto trie = trie_of(pieces);
  std::mt19937 random(5);
  for (const std::string trigger : {"b", "ab", "aba", "abab", "aabaa", "ca"}) {
    for (const bool repeat : {false, true}) {
      const fd::GrammarConstraint constraint(triggered(trigger, repeat), trie);
      for (int round = 0; round < 60; ++round) {
        CAPTURE(trigger, repeat, round);
        auto state = constraint.start();
        std::string text;
        for (int length = 0; length < 12; ++length) {
          Tokens allowed;
          for (fd::TokenId token = 0; token < static_cast<int>(pieces.size()); ++token) {
            const std::string& piece = pieces[fd::idx(token)];
            const bool expected = may_become(text + piece, trigger, repeat);
            CHECK(constraint.mask(state)->contains(token) == expected);
            if (expected) allowed.push_back(token);
          }
          if (allowed.empty()) break;
          const fd::TokenId token = allowed[random() % allowed.size()];
          state = *constraint.next(state, token);
          text += pieces[fd::idx(token)];
        }
      }
    }
  }
}

TEST_CASE(
    "of several triggers the first counts; the text may end where it is free, unless required") {
  const fd::Grammar tool = fd::gbnf_grammar(R"(root ::= "{" [0-9]+ "}")");
  Texts any(fd::triggered_grammar(tool, {{"<tool>", "<fn>", "l>>"}}));
  for (const char* text :
       {"", "thinking <", "<too", "<tool>{1}", "x<fn>{20}", "ll>>{3}", "<to<fn>{1}"}) {
    CHECK(any.accepts(text));
  }
  for (const char* text : {"<tool>", "<tool> {1}", "<tool>{}", "<fn>{1}more", "<tool>>{1}"}) {
    CHECK_FALSE(any.accepts(text));
  }
  Texts required(fd::triggered_grammar(tool, {{"<tool>"}, true, true}));
  CHECK_FALSE(required.accepts("no call"));
  CHECK(required.accepts("a <tool>{1} and"));
  CHECK(required.accepts("a <tool>{1} and <tool>{2}"));
  CHECK_FALSE(required.begins("a <tool>{1} and <tool>x"));
  CHECK(code_of([&] { fd::triggered_grammar(tool, {}); }) == fd::ErrorCode::kInvalidConstraint);
  CHECK(code_of([&] { fd::triggered_grammar(tool, {{""}}); }) == fd::ErrorCode::kInvalidConstraint);
}

TEST_CASE("a control token may be a trigger, and is free before it") {
  std::vector<std::string> pieces{"a", "{", "}", "", "", "{}"};
  for (const fd::TokenId control : {3, 4}) {
    pieces[fd::idx(control)] = fd::control_bytes(control);
  }
  const fd::Grammar grammar =
      fd::triggered_grammar(fd::regex_grammar("\\{\\}"), {{fd::control_bytes(4)}});
  const fd::GrammarConstraint constraint(grammar, trie_of(pieces));
  const auto begin = constraint.start();
  CHECK(constraint.mask(begin)->size() == 6);
  const auto behind_other = *constraint.next(begin, 3);
  CHECK(constraint.mask(behind_other)->size() == 6);
  const auto behind = *constraint.next(behind_other, 4);
  CHECK(constraint.mask(behind)->size() == 2);
  CHECK(constraint.mask(behind)->contains(1));
  CHECK(constraint.mask(behind)->contains(5));
  CHECK(constraint.finished(*constraint.next(behind, 5)));
}

TEST_CASE("an answer behind a thinking part, or without one") {
  const fd::Grammar json = fd::json_grammar(true);
  Texts text(fd::behind_thinking(json, "<think>", "</think>"));
  for (const char* good : {"{}", "<think></think>{}", "\n<think>{ </thin </think>\n\n{\"a\": 1}"}) {
    CHECK(text.accepts(good));
  }
  for (const char* bad : {"", "thinking", "<think>", "<think>x</think>", "<think></think>x"}) {
    CHECK_FALSE(text.accepts(bad));
  }
  Texts opened(fd::behind_thinking(json, "", "</think>"));
  CHECK(opened.accepts("let me see</think>{}"));
  CHECK_FALSE(opened.accepts("{}"));
}

TEST_CASE(
    "hazard 30, vllm#31858, vllm#34241, vllm#48197: a constraint that begins inside a draft gives "
    "the plain text") {
  const std::vector<std::string> pieces{"a",   "b",   "ab",   "ba",  "c",   "cab", "abc", "bb",
                                        "bca", "aab", "caba", "abb", "aba", "cc",  "ca",  "<end>"};
  const auto trie = trie_of(pieces);
  int begun = 0;
  for (int round = 0; round < 30; ++round) {
    toy::Target target(16, 0, 3.0, 100 + static_cast<std::uint32_t>(round));
    target.pieces = pieces;
    target.end_token = 15;
    fd::Options options{.max_tokens = 40, .n_draft = 0, .seed = 3};
    const std::string trigger = round % 3 == 0 ? "ca" : round % 3 == 1 ? "bca" : "abab";
    options.constraint = fd::GrammarConstraint(triggered(trigger, round % 2 == 0), trie);
    for (const float temperature : {0.0f, 1.0f}) {
      options.sampling.temperature = temperature;
      options.n_draft = 0;
      const Tokens prompt{1, 2};
      fd::Decoder plain{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
      const fd::Result expected = plain.generate(prompt, options);
      begun += expected.text.find(trigger + kInner) != std::string::npos;
      CHECK(may_become(expected.text, trigger, round % 2 == 0));
      Tokens truth = prompt;
      truth.insert(truth.end(), expected.tokens.begin(), expected.tokens.end());
      for (const int depth : {1, 2, 3, 5, 8, 16}) {
        CAPTURE(round, temperature, depth);
        options.n_draft = depth;
        for (const int branches : {1, 2}) {
          fd::Decoder decoder{target, toy::TokenCache{},
                              OracleDrafter::sweeping(truth, 16, branches), fd::SampleAndMatch{}};
          const fd::Result result = decoder.generate(prompt, options);
          CHECK(result.tokens == expected.tokens);
          CHECK(result.finish_reason == expected.finish_reason);
        }
        fd::Decoder chained{target, toy::TokenCache{},
                            fd::Chain{fd::ForcedTokens{}, fd::PromptLookup{{.min_match = 1}}},
                            fd::SampleAndMatch{}};
        CHECK(chained.generate(prompt, options).tokens == expected.tokens);
      }
    }
  }
  CHECK(begun > 15);
}

namespace {

const std::vector<std::string> kFew{"a", "b", "ba", "bab"};
const Tokens kPrompt{0, 1};

/// The law of n tokens, each of the constrained rows, by definition.
law::JointLaw triggered_law(const toy::Target& target, const Tokens& prefix, int n) {
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  law::JointLaw joint{{{}, 1.0}};
  for (int i = 0; i < n; ++i) {
    law::JointLaw longer;
    for (const auto& [tokens, probability] : joint) {
      Tokens all = prefix;
      all.insert(all.end(), tokens.begin(), tokens.end());
      std::string text;
      for (std::size_t at = kPrompt.size(); at < all.size(); ++at) {
        text += kFew[fd::idx(all[at])];
      }
      std::vector<float> logits = target.logits_after(all);
      for (std::size_t id = 0; id < kFew.size(); ++id) {
        if (may_become(text + kFew[id], "ab", true)) continue;
        logits[id] = -std::numeric_limits<float>::infinity();
      }
      const auto p = law::p_of(logits, sampling, all);
      for (std::size_t id = 0; id < p.size(); ++id) {
        if (p[id] == 0) continue;
        Tokens next = tokens;
        next.push_back(static_cast<fd::TokenId>(id));
        longer[next] = probability * p[id];
      }
    }
    joint = std::move(longer);
  }
  return joint;
}

template <typename A>
void check_law(const A& rule, const law::NamedDrafter<fd::Shape::kTree>& draft, int depth) {
  CAPTURE(draft.name, depth);
  toy::Target target(4, 0, 1.5, 5);
  fd::Options options{.max_tokens = 1, .sampling = {.temperature = 1.0f}};
  options.constraint = fd::GrammarConstraint(triggered("ab", true), trie_of(kFew));
  fd::Decoder decoder{target, toy::TokenCache{32, 16}, draft.drafter,
                      fd::testing::TreeRule::of(rule)};
  decoder.generate(kPrompt, options);
  const Tokens prefix(decoder.tokens().begin(), decoder.tokens().end());
  options.n_draft = depth;
  CHECK(law::total_variation(law::law_by_rounds(decoder, options, 4),
                             triggered_law(target, prefix, 4)) <= 1e-12);
}

template <typename A>
void check_law(const A& rule) {
  toy::Target target(4, 0, 1.5, 5);
  const fd::SamplingOptions sampling{.temperature = 1.0f};
  constexpr auto kTree = fd::Shape::kTree;
  for (const auto& draft : law::chains_for<kTree>(target, sampling)) check_law(rule, draft, 2);
  if (A::shape != kTree) return;
  for (const auto& draft : law::trees_for(target, sampling)) check_law(rule, draft, 1);
}

}  // namespace

TEST_CASE("a constraint that begins inside a draft keeps the law: rejection") {
  check_law(fd::RejectionSampling{});
}
TEST_CASE("a constraint that begins inside a draft keeps the law: match") {
  check_law(fd::SampleAndMatch{});
}
TEST_CASE("a constraint that begins inside a draft keeps the law: block") {
  check_law(fd::BlockVerification{});
}
