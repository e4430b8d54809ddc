#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace fuzz {

/// Bytes as a list of decisions, so that an input reaches behind what refuses arbitrary bytes. All
/// decisions behind the end of the input are 0: the usual one.
///
/// One decision at a time: compilers differ in which of two arguments comes first, and a kept input
/// has to mean the same to all.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  bool empty() const noexcept { return bytes_.empty(); }

  /// 0 .. n - 1. One byte up to 256, so that a mutation of one byte changes one decision.
  std::size_t below(std::size_t n) noexcept {
    if (n <= 1) return 0;
    return static_cast<std::size_t>(n <= 256 ? take<std::uint8_t>() : take<std::uint32_t>()) % n;
  }
  bool flag() noexcept { return below(2) != 0; }
  /// True once in `n`: what is unusual.
  bool once_in(std::size_t n) noexcept { return below(n) == n - 1; }

  template <typename T>
  T take() noexcept {
    T value{};
    const std::size_t size = std::min(sizeof(T), bytes_.size());
    if (size > 0) std::memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }

  template <typename T, std::size_t n>
  const T& pick(const T (&values)[n]) noexcept {
    return values[below(n)];
  }

  /// Up to `most` bytes of any kind.
  std::string text(std::size_t most) {
    const std::size_t wanted = below(most + 1);
    const std::size_t size = std::min(wanted, bytes_.size());
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return {reinterpret_cast<const char*>(taken.data()), size};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace fuzz
