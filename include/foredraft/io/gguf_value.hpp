#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <locale>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include <foredraft/core/quoted.hpp>
#include <foredraft/io/byte_cursor.hpp>

namespace foredraft::inline v0 {

/// Types of metadata values, with their numbers in files.
/// @source GGUF specification, ggml repository, docs/gguf.md
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Name and size of a type. A string takes at least its length; an array has no size of its own: 0.
struct GgufTypeLayout {
  std::string_view name;
  std::size_t least_bytes;
};

/// Nothing where the number is none of the format's.
constexpr std::optional<GgufTypeLayout> layout_of(GgufType type) noexcept {
  switch (type) {
    case GgufType::kU8: return GgufTypeLayout{"u8", 1};
    case GgufType::kI8: return GgufTypeLayout{"i8", 1};
    case GgufType::kU16: return GgufTypeLayout{"u16", 2};
    case GgufType::kI16: return GgufTypeLayout{"i16", 2};
    case GgufType::kU32: return GgufTypeLayout{"u32", 4};
    case GgufType::kI32: return GgufTypeLayout{"i32", 4};
    case GgufType::kF32: return GgufTypeLayout{"f32", 4};
    case GgufType::kBool: return GgufTypeLayout{"bool", 1};
    case GgufType::kString: return GgufTypeLayout{"string", 8};
    case GgufType::kArray: return GgufTypeLayout{"array", 0};
    case GgufType::kU64: return GgufTypeLayout{"u64", 8};
    case GgufType::kI64: return GgufTypeLayout{"i64", 8};
    case GgufType::kF64: return GgufTypeLayout{"f64", 8};
  }
  return std::nullopt;
}

/// A metadata value as it lies in the file; a scalar looks like an array of one. The reader has
/// checked that `bytes` holds exactly `count` elements, that each string lies inside it and each
/// bool is 0 or 1.
struct GgufValue {
  GgufType type = GgufType::kU8;     ///< of the value: kArray, or the same as `element`
  GgufType element = GgufType::kU8;  ///< never kArray: arrays do not nest
  std::uint64_t count = 1;           ///< elements
  std::span<const std::byte>
      bytes;  ///< little-endian, back to back; a string has its length before it

  bool is_array() const noexcept { return type == GgufType::kArray; }

  /// For messages: "u32", "array of 3 string".
  std::string type_name() const {
    const std::string name(layout_of(element)->name);
    return is_array() ? "array of " + std::to_string(count) + " " + name : name;
  }
};

/// One key and its value.
struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

/// Call f(number) with element `index` as the C++ type that it is stored in, bool included. Not for
/// strings.
/// @shape index < value.count
template <typename F>
auto visit_number(const GgufValue& value, std::size_t index, F f) {
  const auto load = [&]<typename T>(std::type_identity<T>) {
    T number;
    std::memcpy(&number, value.bytes.data() + index * sizeof(T), sizeof(T));  // may be unaligned
    return f(number);
  };
  switch (value.element) {
    case GgufType::kI8: return load(std::type_identity<std::int8_t>{});
    case GgufType::kU16: return load(std::type_identity<std::uint16_t>{});
    case GgufType::kI16: return load(std::type_identity<std::int16_t>{});
    case GgufType::kU32: return load(std::type_identity<std::uint32_t>{});
    case GgufType::kI32: return load(std::type_identity<std::int32_t>{});
    case GgufType::kF32: return load(std::type_identity<float>{});
    case GgufType::kU64: return load(std::type_identity<std::uint64_t>{});
    case GgufType::kI64: return load(std::type_identity<std::int64_t>{});
    case GgufType::kF64: return load(std::type_identity<double>{});
    case GgufType::kBool: return f(value.bytes[index] != std::byte{0});
    case GgufType::kU8:
    case GgufType::kString:
    case GgufType::kArray: break;
  }
  return load(std::type_identity<std::uint8_t>{});
}

/// Call f(text) for each of the first `most` strings. Only for values with strings.
template <typename F>
void visit_strings(const GgufValue& value, F f, std::uint64_t most = UINT64_MAX) {
  ByteCursor in(value.bytes);
  for (std::uint64_t i = 0; i < value.count && i < most; ++i) f(in.take_string("string"));
}

/// For people: `32000`, `"llama"`, `[1, 2, 3, ...]`. Strings are quoted and shortened.
inline std::string to_string(const GgufValue& value, std::uint64_t most = 8) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // a program's own locale would put separators into 32000
  const char* separator = "";
  const auto put = [&](const auto& item) {
    using T = std::decay_t<decltype(item)>;
    out << separator;
    separator = ", ";
    if constexpr (std::is_same_v<T, std::string_view>) {
      out << in_quotes(item);
    } else if constexpr (std::is_same_v<T, bool>) {
      out << (item ? "true" : "false");
    } else {
      out << +item;  // the plus makes a number of an 8-bit type
    }
  };
  if (value.is_array()) out << '[';
  if (value.element == GgufType::kString) {
    visit_strings(value, put, most);
  } else {
    for (std::size_t i = 0; i < value.count && i < most; ++i) visit_number(value, i, put);
  }
  if (value.count > most) out << separator << "...";
  if (value.is_array()) out << ']';
  return out.str();
}

}  // namespace foredraft::inline v0
