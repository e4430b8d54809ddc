#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>

namespace foredraft::inline v0 {

/// Reads little-endian values out of memory that nobody vouches for, never past its end.
///
/// Every length is compared with what is left before it is used, so no sum of an offset and a
/// length from a file is ever formed. Errors say which entry was being read: set enter() when a new
/// one begins.
class ByteCursor {
 public:
  static_assert(std::endian::native == std::endian::little,
                "foredraft reads little-endian files by copying: port take() to this machine");

  explicit ByteCursor(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::size_t offset() const noexcept { return offset_; }
  std::size_t remaining() const noexcept { return bytes_.size() - offset_; }

  /// What is being read from here on: ("tensor", 7), then ("tensor", 7, "output.weight") once that
  /// is known. The views are kept, not copied: text is put together only for an error.
  void enter(std::string_view kind, std::uint64_t index, std::string_view name = {}) noexcept {
    kind_ = kind;
    name_ = name;
    index_ = index;
  }

  /// @errors kCorruptFile where the memory ends before
  template <typename T>
  T take(std::string_view what) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>,
                  "a byte need not be a valid bool");
    T value;
    std::memcpy(&value, take_bytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  /// @errors kCorruptFile where fewer than `size` bytes are left
  std::span<const std::byte> take_bytes(std::uint64_t size, std::string_view what) {
    if (size > remaining()) {
      throw error(std::string(what) + " of " + std::to_string(size) + " bytes at offset " +
                      std::to_string(offset_),
                  "at most the " + std::to_string(remaining()) + " bytes that are left");
    }
    const auto taken = bytes_.subspan(offset_, idx(size));
    offset_ += taken.size();
    return taken;
  }

  /// A length in 64 bits, then that many bytes. The view points into the memory.
  /// @errors kCorruptFile
  std::string_view take_string(std::string_view what) {
    const auto bytes = take_bytes(take<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// Refuses a count of entries, each of at least `least_bytes`, for which the rest of the memory
  /// is too short. Called before anything is allocated or looped over, because the count itself is
  /// free to lie.
  /// @errors kCorruptFile
  void check_count(std::uint64_t count, std::size_t least_bytes, std::string_view what) const {
    if (count <= remaining() / least_bytes) return;
    throw error(
        std::to_string(count) + " " + std::string(what) + " at offset " + std::to_string(offset_),
        "at most " + std::to_string(remaining() / least_bytes) + ", for which the " +
            std::to_string(remaining()) + " bytes left have room");
  }

  /// An error that begins with the entry being read.
  Error error(const std::string& found, std::string_view expected,
              ErrorCode code = ErrorCode::kCorruptFile,
              std::string_view hint = "is the file complete? compare its checksum") const {
    return Error(code, place() + found, expected, hint);
  }

 private:
  std::string place() const {
    if (kind_.empty()) return {};
    const std::string name = name_.empty() ? std::to_string(index_) : in_quotes(name_);
    return std::string(kind_) + " " + name + ": ";
  }

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;  // never above bytes_.size()
  std::string_view kind_;
  std::string_view name_;
  std::uint64_t index_ = 0;
};

}  // namespace foredraft::inline v0
