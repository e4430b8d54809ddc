#include <foredraft/io/gguf_value.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("every type of the format has a layout, no other number has") {
  for (std::uint32_t number = 0; number < 64; ++number) {
    CHECK(fd::layout_of(static_cast<fd::GgufType>(number)).has_value() == (number <= 12));
  }
  CHECK(fd::layout_of(static_cast<fd::GgufType>(UINT32_MAX)) == std::nullopt);
}

TEST_CASE("values print for people") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const auto shown = [&](std::string_view key) { return to_string(*file.find(key)); };
  CHECK(shown("a.u8") == "200");
  CHECK(shown("a.i8") == "-8");
  CHECK(shown("a.u64") == "18446744073709551615");
  CHECK(shown("a.i64") == "-64");
  CHECK(shown("a.f32") == "0.5");
  CHECK(shown("a.bool") == "true");
  CHECK(shown("a.string") == "\"text\"");
  CHECK(shown("b.strings") == "[\"x\", \"\", \"yz\"]");
  CHECK(shown("b.bools") == "[false, true]");
  CHECK(to_string(*file.find("b.ints"), 1) == "[-1, ...]");
  CHECK(to_string(*file.find("b.ints"), 2) == "[-1, 7]");
  CHECK(file.find("b.strings")->type_name() == "array of 3 string");
  CHECK(file.find("a.f64")->type_name() == "f64");
}

TEST_CASE("strings are visited in order, up to a number") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  std::vector<std::string> seen;
  visit_strings(
      *file.find("b.strings"), [&](std::string_view text) { seen.emplace_back(text); }, 2);
  CHECK(seen == std::vector<std::string>{"x", ""});
}
