#include <foredraft/core/quoted.hpp>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("text from a file is harmless in a message") {
  CHECK(fd::in_quotes("llama") == "\"llama\"");
  CHECK(fd::in_quotes("") == "\"\"");
  CHECK(fd::in_quotes("a\"b\\c") == R"("a\"b\\c")");
  CHECK(fd::in_quotes("\x1B[2J\n\x7F\xC3\xA9") == R"("\x1B[2J\x0A\x7F\xC3\xA9")");
  CHECK(fd::in_quotes(std::string(1000, 'x')).size() == 60 + 2 + 3);
  CHECK(fd::in_quotes("abcdef", 3) == "\"abc\"...");
}
