#include <filesystem>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/models.hpp"

// The expected tokens were made with llama.cpp from the same files.
namespace fd = foredraft;
namespace fs = std::filesystem;

namespace {

void compare(const std::string& name) {
  const auto file = model_file(name);
  if (!file) return;
  const fd::Tokenizer tokenizer = fd::Tokenizer::from(fd::Gguf::open(*file));
  std::ifstream lines(test_file("golden/data/" + name + ".tokens.jsonl"));
  int n_lines = 0;
  for (std::string line; std::getline(lines, line); ++n_lines) {
    const nlohmann::json expected = nlohmann::json::parse(line);
    const std::string text = expected.at("text");
    const bool special = expected.at("parse_special");
    INFO(name << ", parse_special " << special << ": " << text);
    const std::vector<fd::TokenId> tokens = tokenizer.encode(text, {.parse_special = special});
    CHECK(tokens == expected.at("tokens").get<std::vector<fd::TokenId>>());
    CHECK(tokenizer.decode(tokens, true) == text);
  }
  CHECK(n_lines == 40);
}

}  // namespace

TEST_CASE("smollm2-135m has llama.cpp's tokens") { compare("smollm2-135m"); }
TEST_CASE("qwen2.5-coder-0.5b has llama.cpp's tokens") { compare("qwen2.5-coder-0.5b"); }
TEST_CASE("qwen2.5-coder-1.5b has llama.cpp's tokens") { compare("qwen2.5-coder-1.5b"); }
TEST_CASE("gemma-3-270m has llama.cpp's tokens") { compare("gemma-3-270m"); }
