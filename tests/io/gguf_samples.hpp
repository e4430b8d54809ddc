#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/gguf_writer.hpp>

/// Files for the tests and the fuzzer of the GGUF reader, good ones and, byte by byte, bad ones.
namespace samples {

namespace fd = foredraft;

/// Bytes without rules, unlike GgufWriter: what is put is what the file says.
struct RawBytes {
  std::vector<std::byte> data;

  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  RawBytes& put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    data.insert(data.end(), bytes.begin(), bytes.end());
    return *this;
  }
  RawBytes& put_letters(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    data.insert(data.end(), bytes.begin(), bytes.end());
    return *this;
  }
  RawBytes& put_string(std::string_view text) {
    return put(static_cast<std::uint64_t>(text.size())).put_letters(text);
  }
  RawBytes& pad(std::size_t alignment) {
    while (data.size() % alignment != 0) data.push_back(std::byte{0});
    return *this;
  }
  RawBytes& fill(std::size_t count) {
    data.resize(data.size() + count, std::byte{0x5a});
    return *this;
  }

  RawBytes& header(std::uint64_t n_tensors, std::uint64_t n_metadata, std::uint32_t version = 3) {
    return put_letters("GGUF").put(version).put(n_tensors).put(n_metadata);
  }
  /// Key and type; the value follows with put().
  RawBytes& entry(std::string_view key, fd::GgufType type) { return put_string(key).put(type); }
  RawBytes& array(std::string_view key, fd::GgufType element, std::uint64_t count) {
    return entry(key, fd::GgufType::kArray).put(element).put(count);
  }
  RawBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                   fd::TensorType type, std::uint64_t offset) {
    put_string(name).put(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t n : shape) put(n);
    return put(type).put(offset);
  }
};

/// One value of every kind, two tensors with data and one without: small, so that every change of
/// every byte of it can be tried.
inline std::vector<std::byte> small_file() {
  using enum fd::GgufType;
  RawBytes file;
  file.header(3, 17);
  file.entry("a.u8", kU8).put(std::uint8_t{200});
  file.entry("a.i8", kI8).put(std::int8_t{-8});
  file.entry("a.u16", kU16).put(std::uint16_t{60000});
  file.entry("a.i16", kI16).put(std::int16_t{-16});
  file.entry("a.u32", kU32).put(std::uint32_t{32});
  file.entry("a.i32", kI32).put(std::int32_t{-32});
  file.entry("a.u64", kU64).put(UINT64_MAX);
  file.entry("a.i64", kI64).put(std::int64_t{-64});
  file.entry("a.f32", kF32).put(0.5f);
  file.entry("a.f64", kF64).put(0.25);
  file.entry("a.bool", kBool).put(std::uint8_t{1});
  file.entry("a.string", kString).put_string("text");
  file.array("b.strings", kString, 3).put_string("x").put_string("").put_string("yz");
  file.array("b.floats", kF32, 2).put(1.0f).put(2.0f);
  file.array("b.ints", kI32, 2).put(std::int32_t{-1}).put(std::int32_t{7});
  file.array("b.bools", kBool, 2).put(std::uint8_t{0}).put(std::uint8_t{1});
  file.entry("general.alignment", kU32).put(std::uint32_t{64});
  file.tensor("norm", {3}, fd::TensorType::kF32, 0);
  file.tensor("empty", {32, 0}, fd::TensorType::kQ4_0, 64);
  file.tensor("matrix", {32, 2}, fd::TensorType::kQ8_0, 64);
  file.pad(64).fill(12).pad(64).fill(68);
  return file.data;
}

inline void demand(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Touches everything that a file offers and throws std::logic_error where it contradicts itself.
/// Under AddressSanitizer this is also the test that no view leaves the file.
/// @return a sum over what was read, so that nothing is optimized away
inline std::uint64_t walk(const fd::Gguf& file, std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const auto inside = [&](const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    return size == 0 || (begin >= bytes.data() && begin + size <= bytes.data() + bytes.size());
  };
  const auto touch = [&](std::string_view text) {
    demand(inside(text.data(), text.size()), "a string outside the file");
    for (const char c : text) sum += static_cast<unsigned char>(c);
  };
  // A typed getter answers or says that the value is of another kind.
  const auto attempt = [](auto get) {
    try {
      demand(get().has_value(), "a getter does not see a key that is there");
    } catch (const fd::Error& e) {
      demand(e.code() == fd::ErrorCode::kCorruptFile, "a getter with another error");
    }
  };
  demand(file.version() == 2 || file.version() == 3, "version");
  demand(file.file_size() == bytes.size(), "size");
  for (const fd::GgufEntry& entry : file.metadata()) {
    touch(entry.key);
    demand(file.find(entry.key) == &entry.value, "find() gives another value");
    demand(inside(entry.value.bytes.data(), entry.value.bytes.size()), "a value outside the file");
    sum += to_string(entry.value, 3).size();
    attempt([&] { return file.get_uint(entry.key); });
    attempt([&] { return file.get_float(entry.key); });
    attempt([&] { return file.get_bool(entry.key); });
    attempt([&] { return file.get_string(entry.key); });
    attempt([&] { return file.get_floats(entry.key); });
    attempt([&] { return file.get_ints(entry.key); });
    attempt([&] {
      auto texts = file.get_strings(entry.key);
      for (const auto text : *texts) touch(text);
      return texts;
    });
  }
  const std::byte* end = bytes.data();
  for (const fd::Gguf::Tensor& tensor : file.tensors()) {
    touch(tensor.name);
    demand(file.find_tensor(tensor.name) == &tensor, "find_tensor() gives another tensor");
    demand(inside(tensor.data.data(), tensor.data.size()), "tensor data outside the file");
    for (const std::byte b : tensor.data) sum += std::to_integer<std::uint64_t>(b);
    if (!fd::layout_of(tensor.type)) continue;
    demand(tensor.data.data() >= end, "tensors overlap");
    end = tensor.data.data() + tensor.data.size();
    demand(static_cast<std::uint64_t>(tensor.data.data() - bytes.data()) % file.alignment() == 0,
           "alignment");
    if (tensor.shape.size() > 2) continue;
    const fd::TensorView view = file.view(tensor);
    const auto row = fd::row_bytes(view.type, view.n_in);
    demand(row && *row * view.n_out == view.data.size(), "a view of another size than its shape");
  }
  return sum;
}

}  // namespace samples
