#include <foredraft/core/out_of_memory.hpp>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("memory that runs out is an error that says for what") {
  const auto refused = [](auto&& f) {
    try {
      fd::or_out_of_memory("a test", f);
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kOutOfMemory);
      return error.found();
    }
    return std::string("nothing");
  };
  CHECK(refused([] { throw std::bad_alloc(); }) == "no memory for a test");
  CHECK(refused([] { std::vector<int>().reserve(~std::size_t{0}); }) == "no memory for a test");
  CHECK(refused([] {}) == "nothing");
}

TEST_CASE("results and other exceptions pass through") {
  int x = 1;
  int& same = fd::or_out_of_memory("a test", [&]() -> int& { return x; });
  CHECK(&same == &x);
  CHECK_THROWS_AS(fd::or_out_of_memory("a test", [] { throw std::runtime_error("other"); }),
                  std::runtime_error);
}
