#include <foredraft/io/chat_marks.hpp>

#include <set>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("every format has marks and a name of its own, by which it is found") {
  std::set<std::string> names;
  for (const fd::ChatMarks& marks : fd::kChatMarks) {
    const std::string name(marks.name);
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(fd::chat_format_of(name) == marks.format);
    CHECK(fd::name_of(marks.format) == name);
    CHECK(&fd::marks_of(marks.format) == &marks);
    const bool raw = marks.format == fd::ChatFormat::kRaw;
    CHECK(marks.user.empty() == raw);
    CHECK(marks.assistant_end.empty() == raw);
    CHECK(marks.system.empty() == marks.system_end.empty());
  }
  CHECK_FALSE(fd::chat_format_of("").has_value());
  CHECK_FALSE(fd::chat_format_of("alpaca").has_value());
}
