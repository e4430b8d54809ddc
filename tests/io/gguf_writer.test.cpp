#include <foredraft/io/gguf_writer.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <foredraft/io/gguf.hpp>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace fs = std::filesystem;

namespace {

template <typename Action>
fd::ErrorCode code_of(Action action) {
  try {
    action();
  } catch (const fd::Error& e) {
    UNSCOPED_INFO(e.what());
    return e.code();
  }
  FAIL("no error");
  return {};
}

}  // namespace

TEST_CASE("what is written is read back") {
  fd::GgufWriter writer;
  writer.add("u8", std::uint8_t{255});
  writer.add("i8", std::int8_t{-128});
  writer.add("u16", std::uint16_t{65535});
  writer.add("i16", std::int16_t{-32768});
  writer.add("u32", std::uint32_t{4294967295u});
  writer.add("i32", std::numeric_limits<std::int32_t>::min());
  writer.add("u64", UINT64_MAX);
  writer.add("i64", INT64_MIN);
  writer.add("f32", 0.1f);
  writer.add("f64", 0.1);
  writer.add("bool", false);
  writer.add("letters", "a literal");
  writer.add("string", std::string("with \0 inside", 13));
  writer.add_array("bools", std::vector<bool>{true, false, true});
  writer.add_array("strings", std::vector<std::string>{"", "b", std::string(1000, 'c')});
  writer.add_array("views", std::vector<std::string_view>{"x"});
  writer.add_array("empty", std::vector<float>{});
  const auto bytes = writer.bytes();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  samples::walk(file, bytes);

  CHECK(file.version() == 3);
  CHECK(file.metadata().size() == 17);
  const std::vector<std::string> types = {"u8",
                                          "i8",
                                          "u16",
                                          "i16",
                                          "u32",
                                          "i32",
                                          "u64",
                                          "i64",
                                          "f32",
                                          "f64",
                                          "bool",
                                          "string",
                                          "string",
                                          "array of 3 bool",
                                          "array of 3 string",
                                          "array of 1 string",
                                          "array of 0 f32"};
  for (std::size_t i = 0; i < types.size(); ++i)
    CHECK(file.metadata()[i].value.type_name() == types[i]);
  CHECK(file.get_uint("u64") == UINT64_MAX);
  CHECK(to_string(*file.find("i64")) == "-9223372036854775808");
  CHECK(file.get_float("f64") == 0.1);
  CHECK(file.get_float("f32") == static_cast<double>(0.1f));
  CHECK(file.get_string("letters") == "a literal");
  CHECK(file.get_string("string") == std::string_view("with \0 inside", 13));
  CHECK(to_string(*file.find("bools")) == "[true, false, true]");
  CHECK(file.get_strings("strings")->at(2).size() == 1000);
}

TEST_CASE("tensors are padded to the alignment") {
  std::mt19937 random(7);
  for (const std::uint32_t alignment : {1u, 8u, 32u, 4096u}) {
    fd::GgufWriter writer(alignment);
    std::vector<std::vector<std::byte>> data;
    const auto add = [&](const char* name, fd::TensorType type, std::vector<std::uint64_t> shape,
                         std::size_t size) {
      data.emplace_back(size);
      for (std::byte& b : data.back()) b = static_cast<std::byte>(random());
      writer.add_tensor(name, type, std::move(shape), data.back());
    };
    data.reserve(6);
    add("scalar", fd::TensorType::kF32, {}, 4);
    add("vector", fd::TensorType::kF16, {7}, 14);
    add("matrix", fd::TensorType::kQ4_K, {256, 3}, 432);
    add("none", fd::TensorType::kQ8_0, {32, 0}, 0);
    add("cube", fd::TensorType::kBF16, {2, 3, 5}, 60);
    add("last", fd::TensorType::kQ6_K, {256}, 210);
    const auto bytes = writer.bytes();
    const fd::Gguf file = fd::Gguf::parse(bytes);
    samples::walk(file, bytes);
    CHECK(file.alignment() == alignment);
    CHECK(bytes.size() % alignment == 0);
    REQUIRE(file.tensors().size() == data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto& read = file.tensors()[i].data;
      CHECK(std::vector<std::byte>(read.begin(), read.end()) == data[i]);
    }
    CHECK(file.tensors()[4].shape == std::vector<std::uint64_t>{2, 3, 5});
  }
}

TEST_CASE("metadata can be carried over from another file") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  fd::GgufWriter writer(64);
  for (const fd::GgufEntry& entry : file.metadata()) {
    if (entry.key != "general.alignment") writer.add(entry.key, entry.value);
  }
  for (const auto& tensor : file.tensors())
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, tensor.data);
  const auto copied = writer.bytes();
  const fd::Gguf copy = fd::Gguf::parse(copied);
  REQUIRE(copy.metadata().size() == file.metadata().size());
  for (const fd::GgufEntry& entry : file.metadata()) {
    const fd::GgufValue* value = copy.find(entry.key);
    REQUIRE(value != nullptr);
    CHECK(value->type_name() == entry.value.type_name());
    CHECK(to_string(*value) == to_string(entry.value));
  }
}

TEST_CASE("what the reader would refuse is not written") {
  using fd::ErrorCode;
  fd::GgufWriter writer;
  const std::vector<std::byte> four(4);
  writer.add("key", 1);
  writer.add_tensor("w", fd::TensorType::kF32, {1}, four);
  const auto before = writer.bytes();

  CHECK(code_of([] { fd::GgufWriter(0); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([] { fd::GgufWriter(48); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([] { fd::GgufWriter(1u << 21); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([&] { writer.add("key", 2); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([&] { writer.add("", 2); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([&] { writer.add(std::string(65536, 'k'), 2); }) == ErrorCode::kInvalidOption);
  const auto tensor = [&](std::string_view name, fd::TensorType type,
                          std::vector<std::uint64_t> shape) {
    return code_of([&] { writer.add_tensor(name, type, shape, four); });
  };
  CHECK(tensor("w", fd::TensorType::kF32, {1}) == ErrorCode::kInvalidOption);
  CHECK(tensor("", fd::TensorType::kF32, {1}) == ErrorCode::kInvalidOption);
  CHECK(tensor(std::string(65, 'n'), fd::TensorType::kF32, {1}) == ErrorCode::kInvalidOption);
  CHECK(tensor("v", fd::TensorType::kF32, {2}) == ErrorCode::kInvalidOption);
  CHECK(tensor("v", fd::TensorType::kF32, {1, 1, 1, 1, 1}) == ErrorCode::kInvalidOption);
  CHECK(tensor("v", static_cast<fd::TensorType>(10), {1}) == ErrorCode::kInvalidOption);
  CHECK(tensor("v", fd::TensorType::kQ8_0, {4}) == ErrorCode::kCorruptFile);
  CHECK(writer.bytes() == before);  // a refused call leaves nothing behind
}

TEST_CASE("saving replaces a file at once, or leaves the old one") {
  const fs::path folder =
      fs::temp_directory_path() / ("foredraft.gguf_writer." + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path path = folder / "model.gguf";
  fd::GgufWriter writer;
  writer.add("general.name", "first");
  writer.save(path);
  const fd::Gguf old = fd::Gguf::open(path);

  fd::GgufWriter second;
  second.add("general.name", "second");
  second.save(path);
  CHECK(old.get_string("general.name") == "first");
  CHECK(fd::Gguf::open(path).get_string("general.name") == "second");

  // A folder in the way of the name, and no folder at all.
  fs::create_directories(folder / "taken" / "inside");
  CHECK(code_of([&] { second.save(folder / "taken"); }) == fd::ErrorCode::kIo);
  CHECK(code_of([&] { second.save(folder / "missing" / "model.gguf"); }) == fd::ErrorCode::kIo);
  for (const auto& entry : fs::directory_iterator(folder))
    CHECK(entry.path().extension() != ".part");
  fs::remove_all(folder);
}

TEST_CASE("a stream that fails is an error") {
  fd::GgufWriter writer;
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  CHECK(code_of([&] { writer.write(out); }) == fd::ErrorCode::kIo);
}
