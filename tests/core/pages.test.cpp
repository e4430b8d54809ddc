#include <foredraft/core/pages.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"
#include "support/sanitizers.hpp"

namespace fd = foredraft;

namespace {

bool aligned(const fd::Pages& pages, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pages.get()) % to == 0;
}

}  // namespace

TEST_CASE("memory of any size can be written and is aligned") {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4097}, fd::kHugePage - 1, fd::kHugePage, fd::kHugePage + 1}) {
    for (const bool huge : {false, true}) {
      CAPTURE(bytes, huge);
      const fd::Pages pages = fd::take_pages(bytes, huge);
      REQUIRE(pages != nullptr);
      CHECK(aligned(pages, huge && bytes >= fd::kHugePage ? fd::kHugePage : fd::kLine));
      pages.get()[0] = pages.get()[bytes - 1] = std::byte{7};
    }
  }
}

#ifndef FOREDRAFT_UNDER_ASAN  // it ends the program at an absurd size
TEST_CASE("memory that no machine has is null") {
  for (const bool huge : {false, true}) {
    CHECK(fd::take_pages(std::numeric_limits<std::size_t>::max() / 4, huge) == nullptr);
    CHECK(fd::take_pages(std::numeric_limits<std::ptrdiff_t>::max(), huge) == nullptr);
  }
}
#endif
