// Against other implementations: tests/golden/tokenizers/make.py says which, and of what.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/pretokenizer.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/models.hpp"

namespace fd = foredraft;

namespace {

/// Each text with what is expected of it.
std::vector<nlohmann::json> reference_texts() {
  std::ifstream lines(test_file("golden/data/tokenizers.jsonl"));
  std::vector<nlohmann::json> texts;
  for (std::string line; std::getline(lines, line);) texts.push_back(nlohmann::json::parse(line));
  return texts;
}

void compare_with_reference(const std::string& name) {
  const auto file = model_file(name);
  if (!file) return;
  const fd::Tokenizer tokenizer = fd::Tokenizer::from(fd::Gguf::open(*file));
  const auto texts = reference_texts();
  CHECK(texts.size() == 200);
  for (const nlohmann::json& expected : texts) {
    const std::string text = expected.at("text");
    INFO(name << ": " << text);
    CHECK(tokenizer.encode(text) == expected.at("tokens").at(name).get<std::vector<fd::TokenId>>());
  }
}

}  // namespace

TEST_CASE("smollm2-135m has the tokens of another tokenizer, for 200 texts") {
  compare_with_reference("smollm2-135m");
}
TEST_CASE("qwen2.5-coder-0.5b has the tokens of another tokenizer, for 200 texts") {
  compare_with_reference("qwen2.5-coder-0.5b");
}
TEST_CASE("gemma-3-270m has the tokens of another tokenizer, for 200 texts") {
  compare_with_reference("gemma-3-270m");
}

TEST_CASE("pre-tokenizers cut 200 texts as the published patterns do") {
  for (const nlohmann::json& expected : reference_texts()) {
    const std::string text = expected.at("text");
    for (const auto& [name, lengths] : expected.at("words").items()) {
      INFO(name << ": " << text);
      std::vector<std::string_view> words;
      fd::Pretokenizer::named(name).split(text, words);
      std::vector<std::size_t> cut;
      for (const std::string_view word : words) cut.push_back(word.size());
      CHECK(cut == lengths.get<std::vector<std::size_t>>());
    }
  }
}
