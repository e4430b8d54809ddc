#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/out_of_memory.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf_header.hpp>
#include <foredraft/io/gguf_value.hpp>
#include <foredraft/io/mapped_file.hpp>

namespace foredraft::inline v0 {

/// A GGUF file, version 2 or 3, little-endian: metadata and tensors, everything checked when it is
/// opened.
///
/// Nothing is copied: keys, strings, arrays and tensor data point into the file, which lives as
/// long as this object (moving it keeps them valid). Tensor data is not touched here; only its
/// place is checked. Stricter than the format where a file that bends it could be read in two ways:
///  - tensor data lies in the order of the tensors, each right behind the one before, padded to
///  alignment();
///  - alignment() is at most 1 MiB (GgufLimits); names and keys are not empty; arrays do not nest.
/// Bytes behind the last tensor are allowed. So are types of tensors that are not in TensorType:
/// they have no data span and no view, and what follows them only has to lie behind them.
/// @cost O(bytes of the header), O(n log n) for names; memory a small multiple of the header
/// @source GGUF specification, ggml repository, docs/gguf.md
class Gguf {
 public:
  using Tensor = GgufTensor;

  /// @errors kIo; kCorruptFile; kUnsupportedModel for another version or byte order; kOutOfMemory
  static Gguf open(const std::filesystem::path& file) {
    MappedFile mapping = MappedFile::open(file);
    try {
      Gguf gguf = parse(mapping.bytes());
      gguf.mapping_ = std::move(mapping);
      return gguf;
    } catch (const Error& e) {
      // What can be done about most damage is the same, whichever byte it shows in.
      const bool damaged = e.hint().empty() && e.code() == ErrorCode::kCorruptFile;
      throw Error(e.code(), "'" + file.string() + "': " + e.found(), e.expected(),
                  damaged ? "fetch the file again: was a download interrupted?" : e.hint());
    }
  }

  /// The same for bytes that the caller keeps alive and unchanged.
  static Gguf parse(std::span<const std::byte> bytes) {
    return or_out_of_memory("the names in a GGUF file",
                            [bytes] { return Gguf(bytes, parse_gguf(bytes)); });
  }

  std::uint32_t version() const noexcept { return header_.version; }
  std::uint64_t alignment() const noexcept { return header_.alignment; }
  std::size_t file_size() const noexcept { return bytes_.size(); }

  /// Null where the bytes came from the caller.
  const FileFacts* file_facts() const noexcept {
    return mapping_.bytes().empty() ? nullptr : &mapping_.facts();
  }

  /// Everything before the data of the tensors: metadata and the table of tensors.
  std::span<const std::byte> header_bytes() const noexcept {
    return bytes_.first(header_.data_begin);
  }

  /// In the order of the file.
  const std::vector<GgufEntry>& metadata() const noexcept { return header_.metadata; }
  const std::vector<Tensor>& tensors() const noexcept { return header_.tensors; }

  /// Null where there is none. @cost O(log n)
  const GgufValue* find(std::string_view key) const {
    const GgufEntry* entry =
        find_by_name(header_.metadata, header_.metadata_order, &GgufEntry::key, key);
    return entry == nullptr ? nullptr : &entry->value;
  }
  const Tensor* find_tensor(std::string_view name) const {
    return find_by_name(header_.tensors, header_.tensor_order, &Tensor::name, name);
  }

  // Typed values: nothing where the key is absent, kCorruptFile where its value is of another kind.
  // Arrays are copied, at up to eight times their size in the file: kOutOfMemory.

  /// Any integer type, as long as the value is not negative.
  std::optional<std::uint64_t> get_uint(std::string_view key) const {
    return scalar<std::uint64_t>(key, "an integer >= 0", is_integer);
  }
  /// Any float or integer type.
  std::optional<double> get_float(std::string_view key) const {
    return scalar<double>(key, "a number", [](GgufType t) { return is_float(t) || is_integer(t); });
  }
  std::optional<bool> get_bool(std::string_view key) const {
    return scalar<bool>(key, "a bool", [](GgufType t) { return t == GgufType::kBool; });
  }
  std::optional<std::string_view> get_string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->type != GgufType::kString) throw wrong_kind(key, *value, "a string");
    std::string_view text;
    visit_strings(*value, [&](std::string_view s) { text = s; });
    return text;
  }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array() || value->element != GgufType::kString) {
      throw wrong_kind(key, *value, "an array of strings");
    }
    return or_out_of_memory(key, [value] {
      std::vector<std::string_view> texts;
      texts.reserve(idx(value->count));
      visit_strings(*value, [&](std::string_view s) { texts.push_back(s); });
      return texts;
    });
  }
  /// f32, or f64 rounded to float as far as that goes.
  std::optional<std::vector<float>> get_floats(std::string_view key) const {
    return array<float>(key, "an array of floats", is_float);
  }
  /// Any integer type, as long as the values fit.
  std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const {
    return array<std::int64_t>(key, "an array of integers that fit 64 bits with sign", is_integer);
  }
  std::optional<std::vector<bool>> get_bools(std::string_view key) const {
    return array<bool>(key, "an array of bools", [](GgufType t) { return t == GgufType::kBool; });
  }

  /// A tensor of rank 0 to 3 as a matrix; one of rank 3 is several, one behind the other.
  /// @shape [shape[1], shape[0]]; [1, shape[0]] for a vector, [shape[2] * shape[1], shape[0]] for
  ///   several matrices
  /// @errors kUnsupportedModel for a type that is not in TensorType; kShapeMismatch for a higher
  /// rank
  TensorView view(const Tensor& tensor) const {
    if (!layout_of(tensor.type)) {
      throw Error(
          ErrorCode::kUnsupportedModel,
          "tensor " + in_quotes(tensor.name) + " of type " + std::to_string(tensor.type_number),
          "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K",
          "choose a file with another quantization");
    }
    const std::size_t rank = tensor.shape.size();
    if (rank > 3) {
      throw Error(ErrorCode::kShapeMismatch,
                  "tensor " + in_quotes(tensor.name) + " of shape " + tensor.shape_text(),
                  "a vector, a matrix or several matrices");
    }
    const auto size = [&](std::size_t d) { return d < rank ? idx(tensor.shape[d]) : 1; };
    // The elements were counted when the file was read, so the product does not wrap.
    return {tensor.type, size(1) * size(2), size(0), tensor.data, mapping_.bytes()};
  }

 private:
  static_assert(sizeof(std::size_t) == 8, "model files do not fit into a 32-bit address space");

  Gguf(std::span<const std::byte> bytes, GgufHeader header) noexcept
      : bytes_(bytes), header_(std::move(header)) {}

  static bool is_float(GgufType type) noexcept {
    return type == GgufType::kF32 || type == GgufType::kF64;
  }
  static bool is_integer(GgufType type) noexcept {
    return !is_float(type) && type != GgufType::kBool && type != GgufType::kString &&
           type != GgufType::kArray;
  }

  static Error wrong_kind(std::string_view key, const GgufValue& value, std::string_view expected) {
    return Error(ErrorCode::kCorruptFile,
                 "key " + in_quotes(key) + ": " + value.type_name() + " " + to_string(value, 4),
                 expected, "the file was written wrongly, or is damaged");
  }

  /// Element `index` as T; nothing where it does not fit.
  template <typename T>
  static std::optional<T> convert(const GgufValue& value, std::size_t index) {
    return visit_number(value, index, [](auto number) -> std::optional<T> {
      using Number = decltype(number);
      if constexpr (std::integral<T> && std::integral<Number> && !std::same_as<T, bool> &&
                    !std::same_as<Number, bool>) {
        if (!std::in_range<T>(number)) return std::nullopt;
      }
      if constexpr (std::floating_point<T> && std::floating_point<Number>) {
        if (std::isfinite(number) && std::abs(number) > std::numeric_limits<T>::max()) {
          return std::nullopt;  // to round it would be undefined
        }
      }
      return static_cast<T>(number);
    });
  }

  template <typename T, typename Accepts>
  std::optional<T> scalar(std::string_view key, std::string_view expected, Accepts accepts) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = accepts(value->type) ? convert<T>(*value, 0) : std::nullopt;
    if (!number) throw wrong_kind(key, *value, expected);
    return number;
  }

  template <typename T, typename Accepts>
  std::optional<std::vector<T>> array(std::string_view key, std::string_view expected,
                                      Accepts accepts) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array() || !accepts(value->element)) throw wrong_kind(key, *value, expected);
    return or_out_of_memory(key, [&] {
      std::vector<T> numbers;
      numbers.reserve(idx(value->count));
      for (std::size_t i = 0; i < value->count; ++i) {
        const auto number = convert<T>(*value, i);
        if (!number) throw wrong_kind(key, *value, expected);
        numbers.push_back(*number);
      }
      return numbers;
    });
  }

  MappedFile mapping_;  // empty where the bytes belong to the caller
  std::span<const std::byte> bytes_;
  GgufHeader header_;
};

}  // namespace foredraft::inline v0
