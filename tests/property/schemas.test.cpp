// Schemas as programs send them: under each of them the text with drafts is the plain text, and where
// it ends by itself it is a value of JSON.
#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/constraint/json_value.hpp>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/grammar_text.hpp"
#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// All bytes, and texts that begin, end and cross parts of JSON.
std::vector<std::string> pieces() {
  std::vector<std::string> all = byte_pieces();
  for (const char* text :
       {"{\"",  "\":",       "\": \"", "\", \"",   "\",\n  \"", "}]",     "\"}", "\"name",
        "name", "arguments", "at",     "false",    "true",      "null",   "12",  "20",
        "00",   ", ",        "], [",   "\xC3\xA9", "l\xC3\xA8", "\xA9\"", "ue"}) {
    all.emplace_back(text);
  }
  all.emplace_back("");  // the end token
  return all;
}

template <typename D>
fd::Result answer(toy::Target& target, D drafter, const fd::Options& options) {
  fd::Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::SampleAndMatch{}};
  return decoder.generate(Tokens{1, 2}, options);
}

}  // namespace

TEST_CASE("under fifty schemas drafts change nothing, and answers are JSON") {
  const std::vector<std::string> vocabulary = pieces();
  const auto trie = trie_of(vocabulary);
  const int n_vocab = static_cast<int>(vocabulary.size());
  std::ifstream in(test_file("constraint/schemas.jsonl"));
  int schemas = 0;
  int ended = 0;
  for (std::string line; std::getline(in, line); ++schemas) {
    const fd::JsonValue entry = fd::JsonReader::read(line, "a line");
    INFO(entry.find("name")->text);
    const fd::Grammar grammar = fd::json_schema_grammar(fd::json_text(*entry.find("schema")));
    Texts texts(grammar);
    toy::Target target(n_vocab, 0, 4.0, 50 + static_cast<std::uint32_t>(schemas));
    target.pieces = vocabulary;
    target.end_token = n_vocab - 1;
    for (const float temperature : {0.0f, 1.0f}) {
      fd::Options options{.max_tokens = 160, .n_draft = 0, .seed = 5};
      options.sampling.temperature = temperature;
      options.constraint = fd::GrammarConstraint(grammar, trie);
      const fd::Result expected = answer(target, fd::NoDraft{}, options);
      CHECK(texts.begins(expected.text));
      if (expected.finish_reason == fd::FinishReason::kEnd) {
        ++ended;
        CHECK(texts.accepts(expected.text));
        CHECK_NOTHROW(fd::JsonReader::read(expected.text, "an answer"));
      }
      Tokens truth{1, 2};
      truth.insert(truth.end(), expected.tokens.begin(), expected.tokens.end());
      for (const int depth : {1, 4, 16}) {
        CAPTURE(temperature, depth);
        options.n_draft = depth;
        CHECK(answer(target, OracleDrafter::sweeping(truth, n_vocab, 2), options).tokens ==
              expected.tokens);
        const fd::Result forced =
            answer(target, fd::Chain{fd::ForcedTokens{}, fd::PromptLookup{}}, options);
        CHECK(forced.tokens == expected.tokens);
        CHECK(forced.finish_reason == expected.finish_reason);
      }
    }
  }
  CHECK(schemas == 50);
  CHECK(ended > 50);
}
