#include <foredraft/core/checked.hpp>

#include <cstdint>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

std::optional<std::uint8_t> if_it_fits(int value) {
  if (value < 0 || value > 255) return std::nullopt;
  return static_cast<std::uint8_t>(value);
}

}  // namespace

TEST_CASE("all sums, products and alignments of bytes are right or refused") {
  int wrong = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const auto x = static_cast<std::uint8_t>(a);
      const auto y = static_cast<std::uint8_t>(b);
      wrong += fd::checked_add(x, y) != if_it_fits(a + b);
      wrong += fd::checked_mul(x, y) != if_it_fits(a * b);
      const auto aligned = b == 0 ? std::nullopt : if_it_fits((a + b - 1) / b * b);
      wrong += fd::checked_align_up(x, y) != aligned;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the widest type is refused where it wraps") {
  const std::uint64_t most = UINT64_MAX;
  CHECK(fd::checked_add(most, std::uint64_t{0}) == most);
  CHECK(fd::checked_add(most, std::uint64_t{1}) == std::nullopt);
  CHECK(fd::checked_mul(most / 3, std::uint64_t{3}) == most);
  CHECK(fd::checked_mul(most / 3 + 1, std::uint64_t{3}) == std::nullopt);
  CHECK(fd::checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32) == std::nullopt);
  CHECK(fd::checked_align_up(most - 1, std::uint64_t{32}) == std::nullopt);
  CHECK(fd::checked_align_up(most - 31, std::uint64_t{32}) == most - 31);
}
