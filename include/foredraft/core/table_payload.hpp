#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/types.hpp>

namespace foredraft::inline v0 {

/// Puts a payload together, little-endian.
class PayloadWriter {
 public:
  template <std::integral T>
  void put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(bits & 0xffu));
      if constexpr (sizeof(T) > 1) bits = static_cast<std::make_unsigned_t<T>>(bits >> 8u);
    }
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& bytes() const& noexcept { return bytes_; }
  std::vector<std::byte> bytes() && noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes a payload apart. Nothing in it is believed: a checksum finds damage, not malice.
class PayloadReader {
 public:
  /// `n_vocab` is the file's own; tokens are held to it.
  PayloadReader(std::span<const std::byte> bytes, std::uint32_t n_vocab) noexcept
      : bytes_(bytes), n_vocab_(n_vocab) {}

  std::size_t remaining() const noexcept { return bytes_.size() - offset_; }

  /// @errors kCorruptFile where the payload ends before
  template <std::integral T>
  T take(std::string_view what) {
    if (remaining() < sizeof(T)) throw error("no " + std::string(what), "more bytes");
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
      if constexpr (sizeof(T) > 1) bits = static_cast<std::make_unsigned_t<T>>(bits << 8u);
      bits = static_cast<std::make_unsigned_t<T>>(
          bits | std::to_integer<std::make_unsigned_t<T>>(bytes_[offset_ + i]));
    }
    offset_ += sizeof(T);
    return static_cast<T>(bits);
  }

  /// A number from `least` to `most`.
  /// @errors kCorruptFile
  template <std::integral T>
  T take_within(T least, T most, std::string_view what) {
    const T value = take<T>(what);
    if (value >= least && value <= most) return value;
    throw error(std::string(what) + " " + std::to_string(value),
                std::to_string(least) + " to " + std::to_string(most));
  }

  /// A token of the vocabulary that the table is for.
  /// @errors kCorruptFile
  TokenId take_token(std::string_view what) {
    const auto most = std::min<std::uint32_t>(n_vocab_, std::numeric_limits<TokenId>::max());
    return take_within<TokenId>(0, static_cast<TokenId>(most) - 1, what);
  }

  /// The same, or `none`. @errors kCorruptFile
  TokenId take_token_or(TokenId none, std::string_view what) {
    const std::size_t at = offset_;
    if (take<TokenId>(what) == none) return none;
    offset_ = at;
    return take_token(what);
  }

  /// How many entries of at least `least_bytes` follow, in 64 bits. A count for which the payload
  /// is too short is refused before anybody reserves memory for it.
  /// @errors kCorruptFile
  std::size_t take_count(std::size_t least_bytes, std::string_view what) {
    const auto count = take<std::uint64_t>("number of " + std::string(what));
    const std::uint64_t most = remaining() / least_bytes;
    if (count <= most) return static_cast<std::size_t>(count);
    throw error(std::to_string(count) + " " + std::string(what),
                "at most " + std::to_string(most) + ", for which there are bytes");
  }

  /// The next bytes as they are. @errors kCorruptFile where there are fewer
  void take_bytes(std::span<std::byte> into, std::string_view what) {
    if (remaining() < into.size()) throw error("no more " + std::string(what), "more bytes");
    std::copy_n(bytes_.data() + offset_, into.size(), into.data());
    offset_ += into.size();
  }

  /// The payload is over.
  /// @errors kCorruptFile
  void end() const {
    if (remaining() > 0) throw error(std::to_string(remaining()) + " more bytes", "the end");
  }

  /// An error that names the place.
  Error error(const std::string& found, const std::string& expected) const {
    return {ErrorCode::kCorruptFile,
            found + " at byte " + std::to_string(offset_) + " of the table's payload", expected,
            "the file is damaged"};
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;  // never above bytes_.size()
  std::uint32_t n_vocab_;
};

}  // namespace foredraft::inline v0
