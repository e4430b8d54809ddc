#include <foredraft/io/gguf.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/io/gguf_writer.hpp>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace fs = std::filesystem;

namespace {

/// Runs `get` and wants it to say that `key` holds another kind of value.
template <typename Get>
void check_wrong_kind(std::string_view key, std::string_view expected, Get get) {
  try {
    get();
    FAIL("accepted " << key);
  } catch (const fd::Error& e) {
    INFO(e.what());
    CHECK(e.code() == fd::ErrorCode::kCorruptFile);
    CHECK(e.found().find(key) != std::string::npos);
    CHECK(e.expected().find(expected) != std::string::npos);
  }
}

fs::path temporary(const char* name) {
  return fs::temp_directory_path() / ("foredraft.gguf." + std::to_string(::getpid()) + "." + name);
}

}  // namespace

static_assert(!std::is_copy_constructible_v<fd::Gguf>);
static_assert(std::is_nothrow_move_constructible_v<fd::Gguf>);

TEST_CASE("metadata: values by key and type") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  CHECK(file.version() == 3);
  CHECK(file.alignment() == 64);
  CHECK(file.file_size() == bytes.size());
  CHECK(file.metadata().size() == 17);
  CHECK(file.metadata()[0].key == "a.u8");

  CHECK(file.get_uint("a.u8") == 200u);
  CHECK(file.get_uint("a.u16") == 60000u);
  CHECK(file.get_uint("a.u32") == 32u);
  CHECK(file.get_uint("a.u64") == UINT64_MAX);
  CHECK(file.get_float("a.f32") == 0.5);
  CHECK(file.get_float("a.f64") == 0.25);
  CHECK(file.get_float("a.i32") == -32.0);
  CHECK(file.get_bool("a.bool") == true);
  CHECK(file.get_string("a.string") == "text");
  CHECK(*file.get_strings("b.strings") == std::vector<std::string_view>{"x", "", "yz"});
  CHECK(*file.get_floats("b.floats") == std::vector<float>{1.0f, 2.0f});
  CHECK(*file.get_ints("b.ints") == std::vector<std::int64_t>{-1, 7});
  CHECK(*file.get_bools("b.bools") == std::vector<bool>{false, true});
}

TEST_CASE("metadata: an absent key is nothing") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  CHECK(file.find("a") == nullptr);
  CHECK(!file.get_uint("a"));
  CHECK(!file.get_float("a"));
  CHECK(!file.get_bool("a"));
  CHECK(!file.get_string("a"));
  CHECK(!file.get_strings("a"));
  CHECK(!file.get_floats("a"));
  CHECK(!file.get_ints("a"));
}

TEST_CASE("metadata: a value of another kind is an error that names the key") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  for (const char* key :
       {"a.i8", "a.i16", "a.i32", "a.i64", "a.f32", "a.bool", "a.string", "b.ints"}) {
    check_wrong_kind(key, "integer >= 0", [&] { file.get_uint(key); });
  }
  for (const char* key : {"a.bool", "a.string", "b.floats"}) {
    check_wrong_kind(key, "a number", [&] { file.get_float(key); });
  }
  for (const char* key : {"a.u8", "a.string", "b.bools"}) {
    check_wrong_kind(key, "a bool", [&] { file.get_bool(key); });
  }
  for (const char* key : {"a.u8", "b.strings"}) {
    check_wrong_kind(key, "a string", [&] { file.get_string(key); });
  }
  for (const char* key : {"a.string", "b.ints"}) {
    check_wrong_kind(key, "array of strings", [&] { file.get_strings(key); });
  }
  for (const char* key : {"a.f32", "b.ints", "b.strings", "b.bools"}) {
    check_wrong_kind(key, "array of floats", [&] { file.get_floats(key); });
  }
  for (const char* key : {"a.i32", "b.floats", "b.strings", "b.bools"}) {
    check_wrong_kind(key, "array of integers", [&] { file.get_ints(key); });
  }
  for (const char* key : {"a.bool", "b.ints"}) {
    check_wrong_kind(key, "array of bools", [&] { file.get_bools(key); });
  }
}

// llama.cpp#26690: scores declared as bytes were read as floats, behind the end of the array.
TEST_CASE("metadata: the element type of scores and token types counts") {
  fd::GgufWriter writer;
  writer.add_array("tokenizer.ggml.scores", std::vector<std::uint8_t>{1, 2, 3});
  writer.add_array("tokenizer.ggml.token_type", std::vector<float>{1, 2, 3});
  writer.add_array("large", std::vector<std::uint64_t>{1, UINT64_MAX});
  writer.add_array("doubles", std::vector<double>{0.5, HUGE_VAL});
  writer.add_array("no floats", std::vector<double>{0.5, -1e39});
  const auto bytes = writer.bytes();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  check_wrong_kind("tokenizer.ggml.scores", "floats",
                   [&] { file.get_floats("tokenizer.ggml.scores"); });
  check_wrong_kind("tokenizer.ggml.token_type", "integers",
                   [&] { file.get_ints("tokenizer.ggml.token_type"); });
  check_wrong_kind("large", "64 bits", [&] { file.get_ints("large"); });
  check_wrong_kind("no floats", "floats", [&] { file.get_floats("no floats"); });
  CHECK(*file.get_floats("doubles") == std::vector<float>{0.5f, HUGE_VALF});
  CHECK(*file.get_ints("tokenizer.ggml.scores") == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("tensors: views have the shape of the matrix product") {
  const auto bytes = samples::small_file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.find_tensor("other") == nullptr);

  const fd::TensorView norm = file.view(*file.find_tensor("norm"));
  CHECK(norm.n_out == 1);
  CHECK(norm.n_in == 3);
  CHECK(norm.data.size() == 12);
  CHECK(norm.data[0] == std::byte{0x5a});

  const fd::TensorView matrix = file.view(*file.find_tensor("matrix"));
  CHECK(matrix.type == fd::TensorType::kQ8_0);
  CHECK(matrix.n_out == 2);
  CHECK(matrix.n_in == 32);
  CHECK(matrix.data.size() == 68);
  CHECK(matrix.data.data() + 68 == bytes.data() + bytes.size());

  const fd::TensorView empty = file.view(*file.find_tensor("empty"));
  CHECK(empty.n_out == 0);
  CHECK(empty.data.empty());
}

TEST_CASE("tensors: what is no matrix has no view") {
  samples::RawBytes raw;
  raw.header(4, 0).tensor("cube", {1, 2, 2, 2}, fd::TensorType::kF32, 0);
  raw.tensor("scalar", {}, fd::TensorType::kF32, 32);
  raw.tensor("stack", {2, 1, 4}, fd::TensorType::kF32, 64);
  raw.tensor("strange", {256}, static_cast<fd::TensorType>(23), 96).pad(32).fill(128);
  const fd::Gguf file = fd::Gguf::parse(raw.data);
  const fd::TensorView scalar = file.view(*file.find_tensor("scalar"));
  CHECK(scalar.n_out == 1);
  CHECK(scalar.n_in == 1);
  const fd::TensorView stack = file.view(*file.find_tensor("stack"));  // matrices, all rows of them
  CHECK((stack.n_out == 4 && stack.n_in == 2));
  try {
    file.view(*file.find_tensor("cube"));
    FAIL("a view");
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kShapeMismatch);
    CHECK(e.found() == "tensor \"cube\" of shape [1, 2, 2, 2]");
  }
  try {
    file.view(*file.find_tensor("strange"));
    FAIL("a view");
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kUnsupportedModel);
    CHECK(e.found() == "tensor \"strange\" of type 23");
  }
}

TEST_CASE("a file that is opened outlives moves, and errors name it") {
  const fs::path path = temporary("ok");
  fd::GgufWriter writer;
  writer.add("general.name", "small");
  const std::vector<float> values = {1, 2, 3};
  writer.add_tensor("w", fd::TensorType::kF32, {3}, std::as_bytes(std::span(values)));
  writer.save(path);

  fd::Gguf first = fd::Gguf::open(path);
  const std::string_view name = *first.get_string("general.name");
  fd::Gguf second = std::move(first);
  first = fd::Gguf::open(path);
  first = std::move(second);
  CHECK(name == "small");
  CHECK(first.get_string("general.name")->data() == name.data());
  CHECK(first.file_size() == fs::file_size(path));
  CHECK(std::memcmp(first.find_tensor("w")->data.data(), values.data(), 12) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(first.find_tensor("w")->data.data()) % 32 == 0);

  fs::resize_file(path, fs::file_size(path) - 24);
  try {
    fd::Gguf::open(path);
    FAIL("opened");
  } catch (const fd::Error& e) {
    INFO(e.what());
    CHECK(e.code() == fd::ErrorCode::kCorruptFile);
    CHECK(e.found().find(path.string()) != std::string::npos);
    CHECK(e.found().find("tensor \"w\"") != std::string::npos);
  }
  fs::remove(path);
  try {
    fd::Gguf::open(path);
    FAIL("opened");
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kIo);
    CHECK(e.found().find(path.string()) != std::string::npos);
  }
}

TEST_CASE("the header ends where the data of the first tensor begins") {
  const auto bytes = samples::small_file();
  const fd::Gguf parsed = fd::Gguf::parse(bytes);
  CHECK(parsed.header_bytes().data() == bytes.data());
  const std::byte* first = bytes.data() + bytes.size();
  for (const auto& tensor : parsed.tensors()) first = std::min(first, tensor.data.data());
  CHECK(parsed.header_bytes().data() + parsed.header_bytes().size() == first);
  CHECK(parsed.file_facts() == nullptr);

  const fs::path path = temporary("facts");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  fd::Gguf opened = fd::Gguf::open(path);
  const fd::Gguf file = std::move(opened);
  fs::remove(path);
  REQUIRE(file.file_facts() != nullptr);
  CHECK(file.file_facts()->size == bytes.size());

  // Without tensors, all of the file is header.
  fd::GgufWriter writer;
  writer.add("general.architecture", std::string("llama"));
  const auto bare = writer.bytes();
  CHECK(fd::Gguf::parse(bare).header_bytes().size() <= bare.size());
}
