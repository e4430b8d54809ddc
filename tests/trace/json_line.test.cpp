#include <foredraft/trace/json_line.hpp>

#include <cstdint>
#include <limits>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("objects and arrays nest, with commas between and nowhere else") {
  fd::JsonLine line;
  line.begin_object().member("a", 1).key("b").begin_array();
  line.value(true).value(false).begin_object().end_object().begin_array().end_array().value("x");
  line.end_array().key("c").begin_object().member("d", -5).end_object().end_object();
  CHECK(line.text() == R"({"a":1,"b":[true,false,{},[],"x"],"c":{"d":-5}})");
  line.clear();
  line.begin_array().end_array();
  CHECK(line.text() == "[]");
}

TEST_CASE("numbers are exact, and what JSON cannot hold is null") {
  fd::JsonLine line;
  line.begin_array().value(0.1).value(0.1f).value(1e300).value(-0.0);
  line.value(std::numeric_limits<std::uint64_t>::max());
  line.value(std::numeric_limits<std::int64_t>::min());
  line.value(std::numeric_limits<double>::infinity());
  line.value(std::numeric_limits<float>::quiet_NaN()).end_array();
  CHECK(line.text() == "[0.1,0.1,1e+300,-0,18446744073709551615,-9223372036854775808,null,null]");
}

TEST_CASE("any bytes become valid JSON on one line") {
  const auto text_of = [](std::string_view bytes) { return fd::JsonLine().value(bytes).text(); };
  CHECK(text_of("a\"b\\c/") == R"("a\"b\\c/")");
  CHECK(text_of(std::string_view("\0\n\x1f\x7f", 4)) == "\"\\u0000\\u000a\\u001f\x7f\"");
  CHECK(text_of("\xF0\x9F\x98\x80") == "\"\xF0\x9F\x98\x80\"");
  CHECK(text_of("\xF0\x9F x") == "\"\uFFFD\uFFFD x\"");
  CHECK(text_of("\xED\xA0\x80") == "\"\uFFFD\uFFFD\uFFFD\"");
  CHECK(text_of("") == "\"\"");
}
