#include <foredraft/constraint/json_value.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using Kind = fd::JsonValue::Kind;

namespace {
fd::JsonValue read(const std::string& text) { return fd::JsonReader::read(text, "a schema"); }
}  // namespace

TEST_CASE("values of JSON are read and written") {
  for (const char* text : {"null", "true", "false", "0", "-12.5e+3", "\"\"", "[]", "{}",
                           "[1,[2],{\"a\":[null]}]", "{\"b\":1,\"a\":\"x\\n\\\"\\\\\\u0001\"}"}) {
    CHECK(fd::json_text(read(text)) == text);
  }
  CHECK(read(" { \"a\" : [ 1 , 2 ] } ").find("a")->items.size() == 2);
  CHECK(read("\"\\u00e9\\ud83d\\ude00\\/\\t\"").text == "\xC3\xA9\xF0\x9F\x98\x80/\t");
  CHECK(read("{}").find("a") == nullptr);
  CHECK(read("true").is_bool());
  CHECK_FALSE(read("1") == read("2"));
}

TEST_CASE("what is no JSON is refused") {
  for (const char* text :
       {"", "nul", "[1,]", "[1 2]", "{\"a\"}", "{a:1}", "{\"a\":1,}", "\"a", "\"\\q\"", "\"\n\"",
        "01", "1.", "-", "1e", "1 2", "\"\\ud800\"", "\"\\u12\"", "{\"a\":1,\"a\":2}", "\xFF"}) {
    INFO(text);
    CHECK(code_of([&] { read(text); }) == fd::ErrorCode::kInvalidConstraint);
  }
  CHECK(code_of([] { read(std::string(5000, '[')); }) == fd::ErrorCode::kInvalidConstraint);
}
