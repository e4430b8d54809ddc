#include <foredraft/core/error.hpp>

#include <set>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a message says code, found, expected and hint") {
  const fd::Error error(fd::ErrorCode::kShapeMismatch, "a [3, 4] tensor", "[4, 3]", "transpose it");
  CHECK(std::string(error.what()) ==
        "[shape-mismatch] found a [3, 4] tensor; expected [4, 3]; hint: transpose it");
  CHECK(error.code() == fd::ErrorCode::kShapeMismatch);
  CHECK(error.found() == "a [3, 4] tensor");
  CHECK(error.expected() == "[4, 3]");
  CHECK(error.hint() == "transpose it");
}

TEST_CASE("parts that there is nothing to say of leave no trace") {
  CHECK(std::string(fd::Error(fd::ErrorCode::kIo, "no file", "").what()) == "[io] found no file");
  CHECK(std::string(fd::Error(fd::ErrorCode::kIo, "no file", "a file").what()) ==
        "[io] found no file; expected a file");
}

TEST_CASE("the parts outlive their arguments and survive a copy") {
  const auto thrown = [] {
    const std::string found = "something long enough to lie on the heap";
    throw fd::Error(fd::ErrorCode::kIo, found, std::string("e"), std::string("h"));
  };
  try {
    thrown();
    FAIL("nothing was thrown");
  } catch (const fd::Error& caught) {
    const fd::Error error = caught;
    CHECK(error.found() == "something long enough to lie on the heap");
    CHECK(error.hint() == "h");
  }
}

TEST_CASE("every code has a spelling of its own") {
  std::set<std::string_view> names;
  int codes = 0;
  for (; fd::name_of(static_cast<fd::ErrorCode>(codes)) != "unknown"; ++codes) {
    const std::string_view name = fd::name_of(static_cast<fd::ErrorCode>(codes));
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos);
    names.insert(name);
  }
  CHECK(static_cast<int>(names.size()) == codes);
  CHECK(codes > static_cast<int>(fd::ErrorCode::kUnsupportedCache));
}
