#include <foredraft/io/pretokenizer.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Words = std::vector<std::string>;

Words split(std::string_view name, std::string_view text) {
  std::vector<std::string_view> views;
  fd::Pretokenizer::named(name).split(text, views);
  return {views.begin(), views.end()};
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const auto word : words) text += word;
  return text;
}

constexpr std::string_view kNames[] = {
    "gpt-2",  "olmo",   "llama-bpe", "dbrx",      "smaug-bpe", "qwen2", "deepseek-r1-qwen",
    "smollm", "refact", "tekken",    "starcoder", "gpt-4o",    "qwen35"};

}  // namespace

TEST_CASE("gpt-2 keeps a space with its word") {
  CHECK(split("gpt-2", "Hello world's 123  end") ==
        Words{"Hello", " world", "'s", " 123", " ", " end"});
  CHECK(split("gpt-2", "a\n\n b") == Words{"a", "\n\n", " b"});
  CHECK(split("gpt-2", "it'S") == Words{"it", "'", "S"});
  CHECK(split("gpt-2", "x  ") == Words{"x", "  "});
  CHECK(split("gpt-2", "a \tb") == Words{"a", " ", "\t", "b"});  // a tab is no part of a word
}

TEST_CASE("llama-bpe takes three digits at a time and line breaks with punctuation") {
  CHECK(split("llama-bpe", "12345") == Words{"123", "45"});
  CHECK(split("llama-bpe", "it'S a;\n\nb") == Words{"it", "'S", " a", ";\n\n", "b"});
  CHECK(split("llama-bpe", "(word) \n x") == Words{"(word", ")", " \n", " x"});
  CHECK(fd::Pretokenizer::named("llama-bpe").keeps_whole_words());
  CHECK(!fd::Pretokenizer::named("gpt-2").keeps_whole_words());
}

TEST_CASE("qwen2 takes single digits") {
  CHECK(split("qwen2", "a 123") == Words{"a", " ", "1", "2", "3"});
  CHECK(split("qwen2", "a\tb") == Words{"a", "\tb"});
  CHECK(split("qwen2", "a\n  b") == Words{"a", "\n", " ", " b"});
}

TEST_CASE("qwen35 keeps what combines with its letters, and is qwen2 else") {
  const std::string accent = "\xCC\x81";
  CHECK(split("qwen35", "cafe" + accent + "s") == Words{"cafe" + accent + "s"});
  CHECK(split("qwen2", "cafe" + accent + "s") == Words{"cafe", accent + "s"});
  CHECK(split("qwen35", "+" + accent + "+") == Words{"+" + accent, "+"});
  const std::string_view text = "it'S a;\n\nb 123 (word) \n  x";
  CHECK(split("qwen35", text) == split("qwen2", text));
}

TEST_CASE("smollm cuts digits before anything else") {
  CHECK(split("smollm", "a  12 b") == Words{"a", "  ", "1", "2", " b"});
  CHECK(split("smollm", "\xC2\xBD") == Words{"\xC2\xBD"});  // one half is a digit, too
}

TEST_CASE("some names are others under another name") {
  const std::string_view text = "Hello WORLD's 12345 caf\xC3\xA9/\n\n  x(y) \n";
  CHECK(split("olmo", text) == split("gpt-2", text));
  CHECK(split("dbrx", text) == split("llama-bpe", text));
  CHECK(split("smaug-bpe", text) == split("llama-bpe", text));
  CHECK(split("deepseek-r1-qwen", text) == split("qwen2", text));
  CHECK(split("refact", text) == split("smollm", text));
  CHECK(split("starcoder", text) == split("smollm", text));
  CHECK_FALSE(fd::Pretokenizer::named("dbrx").keeps_whole_words());
}

TEST_CASE("tekken and gpt-4o cut where small letters end and capitals begin") {
  for (const std::string_view name : {"tekken", "gpt-4o"}) {
    CHECK(split(name, "helloWorld HELLOworld") == Words{"hello", "World", " HELLOworld"});
    CHECK(split(name, "aB\xC3\x89\xC3\xA9") == Words{"a", "B\xC3\x89\xC3\xA9"});
    CHECK(split(name, "e\xCC\x81t") == Words{"e\xCC\x81t"});  // what combines is part of a word
    CHECK(split(name, "a//\n/b") == Words{"a", "//\n/", "b"});
  }
  CHECK(split("tekken", "it's 123") == Words{"it", "'s", " ", "1", "2", "3"});
  CHECK(split("gpt-4o", "it's 1234") == Words{"it's", " ", "123", "4"});
  CHECK(split("gpt-4o", "IT'S") == Words{"IT'S"});
  CHECK(fd::Pretokenizer::named("tekken").keeps_whole_words());
}

TEST_CASE("white space is Unicode's") {
  CHECK(split("gpt-2", "\xC2\xA0\xE3\x80\x80") == Words{"\xC2\xA0\xE3\x80\x80"});  // U+00A0 U+3000
  // U+180E was white space in early versions of Unicode only
  CHECK(split("gpt-2", "\xC2\xA0\xE1\xA0\x8E") == Words{"\xC2\xA0", "\xE1\xA0\x8E"});
}

TEST_CASE("an unknown name is refused with the known ones") {
  for (const char* const name : {"", "default", "GPT-2", "qwen"}) {
    try {
      fd::Pretokenizer::named(name);
      FAIL("accepted");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
      CHECK(error.found().find(name) != std::string::npos);
      CHECK(error.expected() ==
            "one of gpt-2, olmo, llama-bpe, dbrx, smaug-bpe, qwen2, deepseek-r1-qwen, qwen35, "
            "smollm, refact, starcoder, tekken, gpt-4o");
    }
  }
}

TEST_CASE("bytes that are not UTF-8 are words between words") {
  CHECK(split("gpt-2", "ab\xFF\xFE cd\xC3") == Words{"ab", "\xFF\xFE", " cd", "\xC3"});
  CHECK(split("gpt-2", "") == Words{});
}

TEST_CASE("words make up the text, whatever its bytes") {
  std::uint32_t state = 1;
  for (const std::string_view name : kNames) {
    const fd::Pretokenizer pretokenizer = fd::Pretokenizer::named(name);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < round % 40; ++i) {
        constexpr std::string_view kMix =
            "aZ5 \n\r\t'._\xC3\xA9\xE2\x80\x83\xF0\x9F\x98\x80\xFF\xED\xA0\x80\x00s";
        state = state * 1664525 + 1013904223;
        text += kMix[(state >> 16) % kMix.size()];
      }
      std::vector<std::string_view> words;
      pretokenizer.split(text, words);
      CHECK(joined(words) == text);
      for (const auto word : words) CHECK(!word.empty());
    }
  }
}

TEST_CASE("very long runs neither crash nor hang") {
  const std::size_t n = 300'000;
  for (const std::string_view name : kNames) {
    const fd::Pretokenizer pretokenizer = fd::Pretokenizer::named(name);
    for (const std::string_view unit :
         {" ", "\n", " \n", "a", "7", "!", "'", "\xC3\xA9", "\xFF", "\xFFz", "\xE2\x80\x83"}) {
      std::string text;
      for (std::size_t i = 0; i < n; i += unit.size()) text += unit;
      text += "x";
      std::vector<std::string_view> words;
      pretokenizer.split(text, words);
      CHECK(joined(words) == text);
    }
  }
}

TEST_CASE("one pre-tokenizer serves many threads") {
  const fd::Pretokenizer pretokenizer = fd::Pretokenizer::named("qwen2");
  std::string text;
  for (int i = 0; i < 500; ++i) text += "some words, 42 of them;\n";
  std::vector<std::vector<std::string_view>> results(4);
  std::vector<std::thread> threads;
  for (auto& words : results) threads.emplace_back([&] { pretokenizer.split(text, words); });
  for (auto& thread : threads) thread.join();
  for (const auto& words : results) CHECK(words == results[0]);
}
