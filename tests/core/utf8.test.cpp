#include <foredraft/core/utf8.hpp>
#include <string>
#include <string_view>

#include "support/catch.hpp"

namespace fd = foredraft;
using std::string_view_literals::operator""sv;

TEST_CASE("a prefix ends between characters") {
  CHECK(fd::complete_utf8_prefix("") == 0);
  CHECK(fd::complete_utf8_prefix("ab") == 2);
  CHECK(fd::complete_utf8_prefix("a\xC3") == 1);
  CHECK(fd::complete_utf8_prefix("a\xC3\xA9") == 3);
  CHECK(fd::complete_utf8_prefix("a\xF0\x9F\x91") == 1);
  CHECK(fd::complete_utf8_prefix("a\xF0\x9F\x91\xA9") == 5);
}

TEST_CASE("bytes that are not UTF-8 count as complete") {
  CHECK(fd::complete_utf8_prefix("\xFF") == 1);
  CHECK(fd::complete_utf8_prefix("\x80\x80\x80\x80\x80") == 5);
  CHECK(fd::complete_utf8_prefix("\xC3\x28") == 2);
  CHECK(fd::complete_utf8_prefix("\xF0\x80\x80\x80\x80") == 5);
}

TEST_CASE("valid characters are those of RFC 3629") {
  CHECK(fd::valid_utf8_character("") == 0);
  CHECK(fd::valid_utf8_character("\0x"sv) == 1);
  CHECK(fd::valid_utf8_character("\xC2\x80") == 2);
  CHECK(fd::valid_utf8_character("\xE0\xA0\x80") == 3);
  CHECK(fd::valid_utf8_character("\xED\x9F\xBF") == 3);
  CHECK(fd::valid_utf8_character("\xF4\x8F\xBF\xBF") == 4);
  for (const auto bad : {"\x80"sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xE0\x9F\xBF"sv, "\xED\xA0\x80"sv,
                         "\xF0\x8F\xBF\xBF"sv, "\xF4\x90\x80\x80"sv, "\xF5\x80\x80\x80"sv, "\xC3"sv,
                         "\xC3\x28"sv, "\xE2\x82"sv, "\xFF"sv}) {
    CHECK(fd::valid_utf8_character(bad) == 0);
  }
}

TEST_CASE("the number of valid code points is exact") {
  // 1,112,064 = 0x110000 code points without the 2048 surrogates; by length 128, 1920, 61440,
  // 1048576.
  std::size_t n_valid = 0;
  for (unsigned a = 0xC0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      const auto byte = [](unsigned x) { return static_cast<char>(x); };
      const std::string text = {byte(a), byte(b), '\x80', '\x80'};
      const std::size_t length = fd::valid_utf8_character(text);
      if (length == 2) n_valid += 1;
      if (length == 3) n_valid += 64;
      if (length == 4) n_valid += 64 * 64;
    }
  }
  CHECK(n_valid == 1920 + 61440 + 1048576);
}

TEST_CASE("the valid prefix ends at the first bad byte") {
  CHECK(fd::valid_utf8_prefix("") == 0);
  CHECK(fd::valid_utf8_prefix("h\xC3\xA9") == 3);
  CHECK(fd::valid_utf8_prefix("h\xC3\xA9\xFFx") == 3);
  CHECK(fd::valid_utf8_prefix("\xE2\x82") == 0);
}

TEST_CASE("a stream loses nothing, splits no character and holds at most three bytes") {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x91\xA9\xFF\xC3\x28\xED\xA0\x80z\xF0\x9F";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    fd::Utf8Stream stream;
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += step) {
      shown += stream.push(text.substr(at, step));
      CHECK(stream.held().size() <= 3);
      CHECK(fd::complete_utf8_prefix(shown) == shown.size());
    }
    CHECK(stream.held() == "\xF0\x9F");
    CHECK(shown + stream.flush() == text);
    CHECK(stream.flush().empty());
  }
}
