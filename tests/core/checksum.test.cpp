#include <foredraft/core/checksum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

std::vector<std::byte> noise(std::size_t size) {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("a checksum is the same everywhere and for ever: it stands in files") {
  // By another implementation of the definition, with whole numbers in Python.
  const std::string_view text = "foredraft";
  std::vector<std::byte> counted(1024);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<std::byte>(i);
  CHECK(fd::checksum({}) == 0xfbc4f133f158891au);
  CHECK(fd::checksum(std::as_bytes(std::span(text))) == 0x5fb5e16af4402b9au);
  CHECK(fd::checksum(counted) == 0xf11cb040b9bb6c6cu);
}

TEST_CASE("every flipped bit changes the checksum, and every pair of top bits") {
  auto bytes = noise(1000);  // whole rounds of eight words, and a rest
  const std::uint64_t sound = fd::checksum(bytes);
  std::set<std::uint64_t> found{sound};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1u << bit % 8);
    bytes[bit / 8] ^= mask;
    found.insert(fd::checksum(bytes));
    bytes[bit / 8] ^= mask;
  }
  CHECK(found.size() == 1 + 8 * bytes.size());

  // The top bits of two words that go into the same sum.
  for (std::size_t word = 64; word + 8 <= bytes.size(); word += 64) {
    bytes[7] ^= std::byte{0x80};
    bytes[word + 7] ^= std::byte{0x80};
    CHECK(fd::checksum(bytes) != sound);
    bytes[7] ^= std::byte{0x80};
    bytes[word + 7] ^= std::byte{0x80};
  }
  CHECK(fd::checksum(bytes) == sound);
}

TEST_CASE("order and length change the checksum") {
  auto bytes = noise(4096);
  const std::uint64_t sound = fd::checksum(bytes);
  for (const std::size_t size : {std::size_t{8}, std::size_t{64}, std::size_t{512}}) {
    auto swapped = bytes;
    std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(size),
                     swapped.begin() + 1024);
    CHECK(fd::checksum(swapped) != sound);
  }
  std::set<std::uint64_t> sums;
  const std::vector<std::byte> zeros(200);
  for (std::size_t size = 0; size <= zeros.size(); ++size) {
    sums.insert(fd::checksum(std::span(zeros).first(size)));
  }
  CHECK(sums.size() == zeros.size() + 1);
}
