#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace foredraft::inline v0 {

/// A 64-bit checksum at the speed of memory. It finds damage, not malice: whoever may write a file
/// may also write its checksum.
///
/// Eight words at a time, each into a sum of its own, so that multiplications overlap. Every step
/// is one-to-one in the word and in the sum, so damage within one word is always found; any other
/// goes unseen with a probability of about 2^-64. The shift lets the top bits, which a
/// multiplication only keeps, take part in the next one.
/// @cost one pass, no allocation
inline std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kWords = 8;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio
  const auto step = [](std::uint64_t sum, std::uint64_t word) {
    const std::uint64_t product = (sum ^ word) * kOdd;
    return product ^ product >> 32;
  };
  std::uint64_t sums[kWords];
  for (std::size_t i = 0; i < kWords; ++i) sums[i] = kOdd * (i + 1);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t words[kWords];
  for (; left >= sizeof(words); at += sizeof(words), left -= sizeof(words)) {
    std::memcpy(words, at, sizeof(words));
    for (std::size_t i = 0; i < kWords; ++i) sums[i] = step(sums[i], words[i]);
  }
  if (left > 0) {
    std::memset(words, 0, sizeof(words));
    std::memcpy(words, at, left);
    for (std::size_t i = 0; i < kWords; ++i) sums[i] = step(sums[i], words[i]);
  }
  // The size, because zeros at the end would be the same as none.
  std::uint64_t all = bytes.size();
  for (const std::uint64_t sum : sums) all = step(all, sum);
  return step(all, 0);
}

}  // namespace foredraft::inline v0
