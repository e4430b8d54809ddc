#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <foredraft/core/checked.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/byte_cursor.hpp>
#include <foredraft/io/gguf_tensor.hpp>
#include <foredraft/io/gguf_value.hpp>
#include <foredraft/io/name_index.hpp>

namespace foredraft::inline v0 {

/// Limits of GGUF files, those of the specification and our own.
struct GgufLimits {
  static constexpr std::size_t key_bytes = 65535;
  static constexpr std::size_t name_bytes = 64;
  static constexpr std::uint32_t rank = 4;
  static constexpr std::uint64_t default_alignment = 32;
  /// Ours: real files use 32, some a page; more only moves data out of reach.
  static constexpr std::uint64_t alignment = std::uint64_t{1} << 20;
};

/// What the header of a file says, once all of it has been checked. Made by parse_gguf, seen
/// through Gguf.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = GgufLimits::default_alignment;
  std::size_t data_begin = 0;               // where the data of the tensors begins in the file
  std::vector<GgufEntry> metadata;          // in the order of the file
  std::vector<GgufTensor> tensors;          // in the order of the file
  std::vector<std::size_t> metadata_order;  // by key
  std::vector<std::size_t> tensor_order;    // by name
};

namespace detail {

/// One pass over a header. Every count, size, offset and type is checked before it is used.
class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) noexcept : bytes_(bytes), in_(bytes) {}

  GgufHeader parse() {
    read_start();
    read_metadata();
    read_tensors();
    place_data();
    return std::move(header_);
  }

 private:
  // Least sizes of an entry: a length, one character, then type and one byte of value ...
  static constexpr std::size_t kLeastEntry = 8 + 1 + 4 + 1;
  // ... or rank 0, type and offset.
  static constexpr std::size_t kLeastTensor = 8 + 1 + 4 + 4 + 8;

  void read_start() {
    const auto magic = in_.take_bytes(4, "magic number");
    const std::string_view letters(reinterpret_cast<const char*>(magic.data()), magic.size());
    if (letters != "GGUF") {
      throw Error(ErrorCode::kCorruptFile, "a file that begins with " + in_quotes(letters),
                  "the letters GGUF",
                  "is it another format, a web page, or the pointer that Git LFS leaves in place "
                  "of a file?");
    }
    header_.version = in_.take<std::uint32_t>("version");
    // The lower half of a small number that was written the other way round is empty.
    if (header_.version != 0 && (header_.version & 0xffff) == 0) {
      throw in_.error("a big-endian GGUF file", "little-endian", ErrorCode::kUnsupportedModel,
                      "convert the model for this machine's byte order");
    }
    if (header_.version != 2 && header_.version != 3) {
      throw in_.error("GGUF version " + std::to_string(header_.version), "2 or 3",
                      header_.version == 0 ? ErrorCode::kCorruptFile : ErrorCode::kUnsupportedModel,
                      "convert the model again with current tools");
    }
    n_tensors_ = in_.take<std::uint64_t>("number of tensors");
    n_metadata_ = in_.take<std::uint64_t>("number of metadata entries");
    in_.check_count(n_tensors_, kLeastTensor, "tensors");
    in_.check_count(n_metadata_, kLeastEntry, "metadata entries");
  }

  // No reserve() here and below: vectors grow with what has been read, not with what is announced.
  void read_metadata() {
    for (std::uint64_t i = 0; i < n_metadata_; ++i) {
      in_.enter("metadata entry", i);
      const std::string_view key = read_name("key", GgufLimits::key_bytes);
      in_.enter("key", i, key);
      header_.metadata.push_back({key, read_value()});
    }
    header_.metadata_order = index_by_name(header_.metadata, &GgufEntry::key, "keys");
    const GgufEntry* alignment = find_by_name(header_.metadata, header_.metadata_order,
                                              &GgufEntry::key, "general.alignment");
    if (alignment != nullptr) read_alignment(alignment->value);
  }

  GgufValue read_value() {
    GgufValue value;
    value.type = value.element = read_type("type");
    if (value.is_array()) {
      value.element = read_type("type of elements");
      if (value.element == GgufType::kArray) {
        throw in_.error("an array of arrays", "an array of numbers, bools or strings",
                        ErrorCode::kUnsupportedModel,
                        "no model needs one: where does the file come from?");
      }
      value.count = in_.take<std::uint64_t>("number of elements");
    }
    const std::size_t least = layout_of(value.element)->least_bytes;
    in_.check_count(value.count, least, "elements");
    const std::size_t begin = in_.offset();
    if (value.element == GgufType::kString) {
      for (std::uint64_t i = 0; i < value.count; ++i) in_.take_string("string");
    } else {
      // check_count held this product below what is left of the file
      in_.take_bytes(value.count * least, "elements");
    }
    value.bytes = bytes_.subspan(begin, in_.offset() - begin);
    if (value.element == GgufType::kBool) check_bools(value);
    return value;
  }

  GgufType read_type(std::string_view what) {
    const auto number = in_.take<std::uint32_t>(what);
    const auto type = static_cast<GgufType>(number);
    if (layout_of(type)) return type;
    throw in_.error(std::string(what) + " " + std::to_string(number), "0 to 12");
  }

  void check_bools(const GgufValue& value) const {
    for (const std::byte b : value.bytes) {
      if (b > std::byte{1}) {
        throw in_.error("a bool of value " + std::to_string(std::to_integer<int>(b)), "0 or 1");
      }
    }
  }

  std::string_view read_name(std::string_view what, std::size_t most) {
    const std::string_view name = in_.take_string(what);
    if (!name.empty() && name.size() <= most) return name;
    throw in_.error(
        std::string(what) + " of " + std::to_string(name.size()) + " bytes: " + in_quotes(name, 16),
        "1 to " + std::to_string(most) + " bytes");
  }

  void read_alignment(const GgufValue& value) {
    const std::uint64_t found =
        value.type == GgufType::kU32
            ? visit_number(value, 0, [](auto x) { return static_cast<std::uint64_t>(x); })
            : 0;
    if (!std::has_single_bit(found) || found > GgufLimits::alignment) {
      throw Error(ErrorCode::kCorruptFile,
                  "key \"general.alignment\": " + value.type_name() + " " + to_string(value, 4),
                  "u32, a power of two up to " + std::to_string(GgufLimits::alignment),
                  "the file is damaged, or was written wrongly");
    }
    header_.alignment = found;
  }

  void read_tensors() {
    for (std::uint64_t i = 0; i < n_tensors_; ++i) {
      in_.enter("tensor", i);
      GgufTensor tensor;
      tensor.name = read_name("name", GgufLimits::name_bytes);
      in_.enter("tensor", i, tensor.name);
      const auto rank = in_.take<std::uint32_t>("number of dimensions");
      if (rank > GgufLimits::rank) {
        throw in_.error(std::to_string(rank) + " dimensions",
                        "at most " + std::to_string(GgufLimits::rank));
      }
      for (std::uint32_t d = 0; d < rank; ++d) {
        tensor.shape.push_back(in_.take<std::uint64_t>("dimension"));
      }
      tensor.type_number = in_.take<std::uint32_t>("type");
      tensor.type = static_cast<TensorType>(tensor.type_number);
      tensor.offset = in_.take<std::uint64_t>("offset");
      header_.tensors.push_back(std::move(tensor));
    }
    header_.tensor_order = index_by_name(header_.tensors, &GgufTensor::name, "tensors");
  }

  /// Gives every tensor its place behind the one before it; the alignment is known by now.
  void place_data() {
    header_.data_begin = in_.offset();
    if (header_.tensors.empty()) return;
    const auto begin = checked_align_up<std::uint64_t>(in_.offset(), header_.alignment);
    if (!begin || *begin > bytes_.size()) {
      throw Error(ErrorCode::kCorruptFile,
                  "a file that ends at offset " + std::to_string(bytes_.size()) +
                      ", before the tensor data",
                  "tensor data behind the header's " + std::to_string(in_.offset()) + " bytes",
                  "is the file complete? compare its checksum");
    }
    header_.data_begin = idx(*begin);
    const std::uint64_t room = bytes_.size() - *begin;
    std::uint64_t next = 0;  // where the tensor must begin; at least, behind one of unknown size
    bool exact = true;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      GgufTensor& tensor = header_.tensors[i];
      in_.enter("tensor", i, tensor.name);
      if (tensor.offset % header_.alignment != 0 ||
          (exact ? tensor.offset != next : tensor.offset < next)) {
        throw in_.error("data at offset " + std::to_string(tensor.offset),
                        (exact ? "offset " : "an aligned offset from ") + std::to_string(next) +
                            ", behind the tensor before it");
      }
      const auto size = data_bytes(tensor);  // throws in the tensor's name
      if (tensor.offset > room || size.value_or(0) > room - tensor.offset) {
        throw in_.error(std::to_string(size.value_or(0)) + " bytes of data at offset " +
                            std::to_string(tensor.offset),
                        "an end within the " + std::to_string(room) + " bytes of data in the file");
      }
      exact = size.has_value();
      if (exact) tensor.data = bytes_.subspan(*begin + tensor.offset, *size);
      // Neither step can wrap: the sum lies inside the file, and padding adds less than 1 MiB.
      next = checked_align_up(tensor.offset + size.value_or(0), header_.alignment)
                 .value_or(UINT64_MAX);
    }
  }

  std::span<const std::byte> bytes_;
  ByteCursor in_;
  std::uint64_t n_tensors_ = 0;
  std::uint64_t n_metadata_ = 0;
  GgufHeader header_;
};

}  // namespace detail

/// Read and check the header of a GGUF file. Prefer Gguf, which also holds the file.
/// @errors as Gguf::parse
inline GgufHeader parse_gguf(std::span<const std::byte> bytes) {
  return detail::GgufParser(bytes).parse();
}

}  // namespace foredraft::inline v0
