#include <foredraft/constraint/string_formats.hpp>

#include <foredraft/constraint/regex.hpp>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

// What their texts are is tested through schemas: json_schema.test.cpp.
TEST_CASE("each known format has a pattern that some text matches, others have none") {
  for (const char* format : {"date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6",
                             "hostname", "uri", "email"}) {
    CAPTURE(format);
    CHECK_FALSE(Texts(fd::regex_grammar(fd::pattern_of_format(format))).accepts(""));
  }
  CHECK(fd::pattern_of_format("regex").empty());
}
