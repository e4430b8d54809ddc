#pragma once

#include <bit>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <ostream>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf_header.hpp>
#include <foredraft/io/gguf_tensor.hpp>
#include <foredraft/io/gguf_value.hpp>

namespace foredraft::inline v0 {

/// The type in which a file keeps a C++ number.
template <typename T>
  requires std::integral<T> || std::floating_point<T>
constexpr GgufType gguf_type_of() noexcept {
  using enum GgufType;
  if constexpr (std::same_as<T, bool>) return kBool;
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? kF32 : kF64;
  constexpr bool is_signed = std::signed_integral<T>;
  switch (sizeof(T)) {
    case 1: return is_signed ? kI8 : kU8;
    case 2: return is_signed ? kI16 : kU16;
    case 4: return is_signed ? kI32 : kU32;
    default: return is_signed ? kI64 : kU64;
  }
}

/// Makes a GGUF file, version 3, that Gguf reads back: metadata in the order of the calls, then
/// tensors. What the reader would refuse is refused here, when it is added.
/// @errors of every add: kInvalidOption for a name that is empty, too long or taken
class GgufWriter {
 public:
  /// @errors kInvalidOption unless a power of two, at most GgufLimits::alignment
  explicit GgufWriter(std::uint32_t alignment = GgufLimits::default_alignment)
      : alignment_(alignment) {
    if (!std::has_single_bit(alignment) || alignment > GgufLimits::alignment) {
      throw Error(ErrorCode::kInvalidOption, "alignment " + std::to_string(alignment),
                  "a power of two up to " + std::to_string(GgufLimits::alignment));
    }
    if (alignment != GgufLimits::default_alignment) add("general.alignment", alignment);
  }

  /// A number, bool or string, in the type of the argument.
  template <typename T>
  void add(std::string_view key, const T& value) {
    begin_entry(key);
    put(type_of<T>());
    put(value);
  }

  /// The same for several: any range of numbers, bools or strings.
  template <std::ranges::sized_range R>
  void add_array(std::string_view key, const R& values) {
    begin_entry(key);
    put(GgufType::kArray);
    put(type_of<std::ranges::range_value_t<R>>());
    put(static_cast<std::uint64_t>(std::ranges::size(values)));
    for (const auto& value : values) put(std::ranges::range_value_t<R>(value));
  }

  /// A value as another file holds it.
  void add(std::string_view key, const GgufValue& value) {
    begin_entry(key);
    put(value.type);
    if (value.is_array()) {
      put(value.element);
      put(value.count);
    }
    metadata_.insert(metadata_.end(), value.bytes.begin(), value.bytes.end());
  }

  /// The data is not copied: it has to live until the file has been written.
  /// @param shape as in the file: shape[0] is n_in, the fastest
  /// @errors kInvalidOption also where `data` has another size than shape and type ask for;
  ///   kCorruptFile for a shape that no file can hold
  void add_tensor(std::string_view name, TensorType type, std::vector<std::uint64_t> shape,
                  std::span<const std::byte> data) {
    if (shape.size() > GgufLimits::rank) {
      throw Error(ErrorCode::kInvalidOption, std::to_string(shape.size()) + " dimensions",
                  "at most 4");
    }
    GgufTensor tensor{name,       type, static_cast<std::uint32_t>(type), std::move(shape),
                      data_size_, data};
    if (const auto size = data_bytes(tensor); size != data.size()) {
      throw Error(
          ErrorCode::kInvalidOption,
          "tensor " + in_quotes(name) + " with " + std::to_string(data.size()) + " bytes of data",
          size ? std::to_string(*size) : "a type that foredraft knows");
    }
    claim(names_, name, GgufLimits::name_bytes);
    put(name, tensor_infos_);
    put(static_cast<std::uint32_t>(tensor.shape.size()), tensor_infos_);
    for (const std::uint64_t n : tensor.shape) put(n, tensor_infos_);
    put(tensor.type_number, tensor_infos_);
    put(tensor.offset, tensor_infos_);
    data_.push_back(data);
    data_size_ += padded(data.size());
  }

  /// @errors kIo where the stream fails
  void write(std::ostream& out) const {
    std::vector<std::byte> start;
    put(std::uint32_t{0x46554747}, start);  // "GGUF"
    put(std::uint32_t{3}, start);
    put(static_cast<std::uint64_t>(names_.size()), start);
    put(static_cast<std::uint64_t>(keys_.size()), start);
    start.insert(start.end(), metadata_.begin(), metadata_.end());
    start.insert(start.end(), tensor_infos_.begin(), tensor_infos_.end());
    write_padded(out, start);
    for (const auto data : data_) write_padded(out, data);
    if (!out.flush()) {
      throw Error(ErrorCode::kIo, "a stream that fails: " + system_reason(), "room for the file");
    }
  }

  /// The whole file in memory.
  std::vector<std::byte> bytes() const {
    std::ostringstream out;
    write(out);
    const std::string text = out.str();
    const auto all = std::as_bytes(std::span(text));
    return {all.begin(), all.end()};
  }

  /// Writes beside `path` and renames at the end, so that no half file ever has that name and
  /// whoever has the old one mapped keeps it whole.
  /// @errors kIo
  void save(const std::filesystem::path& path) const {
    const std::filesystem::path part = path.string() + ".part";
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    if (!out) {
      throw Error(ErrorCode::kIo, "'" + part.string() + "': " + system_reason(), "a writable path");
    }
    std::error_code failed;
    try {
      write(out);
      out.close();
      if (!out) {
        throw Error(ErrorCode::kIo, "'" + part.string() + "': " + system_reason(),
                    "room for the whole file");
      }
      std::filesystem::rename(part, path, failed);
    } catch (...) {
      std::filesystem::remove(part, failed);
      throw;
    }
    if (failed) {
      const std::string reason = failed.message();
      std::filesystem::remove(part, failed);
      throw Error(ErrorCode::kIo, "'" + path.string() + "': " + reason,
                  "a path that can be replaced");
    }
  }

 private:
  using Bytes = std::vector<std::byte>;
  using Names = std::set<std::string, std::less<>>;

  template <typename T>
  static constexpr GgufType type_of() noexcept {
    if constexpr (std::convertible_to<T, std::string_view>) {
      return GgufType::kString;
    } else {
      return gguf_type_of<T>();
    }
  }

  static std::string system_reason() {
    return std::error_code(errno, std::generic_category()).message();
  }

  static void claim(Names& names, std::string_view name, std::size_t most) {
    if (name.empty() || name.size() > most) {
      throw Error(ErrorCode::kInvalidOption, "a name of " + std::to_string(name.size()) + " bytes",
                  "1 to " + std::to_string(most));
    }
    if (!names.emplace(name).second) {
      throw Error(ErrorCode::kInvalidOption, "the name " + in_quotes(name) + " a second time",
                  "names that differ");
    }
  }

  void begin_entry(std::string_view key) {
    claim(keys_, key, GgufLimits::key_bytes);
    put(key);
  }

  template <typename T>
  void put(const T& value) {
    put(value, metadata_);
  }

  template <typename T>
  static void put(const T& value, Bytes& to) {
    if constexpr (std::convertible_to<T, std::string_view>) {
      const std::string_view text = value;
      put(static_cast<std::uint64_t>(text.size()), to);
      const auto bytes = std::as_bytes(std::span(text));
      to.insert(to.end(), bytes.begin(), bytes.end());
    } else {
      const auto bytes = std::as_bytes(std::span(&value, 1));  // little-endian, see ByteCursor
      to.insert(to.end(), bytes.begin(), bytes.end());
    }
  }

  std::uint64_t padded(std::uint64_t size) const {
    return checked_align_up<std::uint64_t>(size, alignment_).value();
  }

  void write_padded(std::ostream& out, std::span<const std::byte> bytes) const {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out << std::string(padded(bytes.size()) - bytes.size(), '\0');
  }

  std::uint32_t alignment_;
  Names keys_;
  Names names_;
  Bytes metadata_;
  Bytes tensor_infos_;
  std::vector<std::span<const std::byte>> data_;
  std::uint64_t data_size_ = 0;  // padded, so the offset of the next tensor
};

}  // namespace foredraft::inline v0
