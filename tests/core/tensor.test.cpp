#include <foredraft/core/tensor.hpp>

#include <cstdint>
#include <set>
#include <string_view>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("blocks have the size of their parts") {
  const auto bytes = [](fd::TensorType type) { return fd::layout_of(type).value().bytes; };
  const std::size_t half = 2;  // a binary16 scale
  CHECK(bytes(fd::TensorType::kQ4_0) == half + 16);
  CHECK(bytes(fd::TensorType::kQ4_1) == 2 * half + 16);
  CHECK(bytes(fd::TensorType::kQ5_0) == half + 4 + 16);
  CHECK(bytes(fd::TensorType::kQ5_1) == 2 * half + 4 + 16);
  CHECK(bytes(fd::TensorType::kQ8_0) == half + 32);
  CHECK(bytes(fd::TensorType::kQ4_K) == 2 * half + 12 + 128);
  CHECK(bytes(fd::TensorType::kQ5_K) == 2 * half + 12 + 32 + 128);
  CHECK(bytes(fd::TensorType::kQ6_K) == half + 16 + 64 + 128);
}

TEST_CASE("only the numbers of known formats have a layout") {
  std::set<std::uint32_t> known;
  std::set<std::string_view> names;
  for (std::uint32_t number = 0; number < 300; ++number) {
    const auto layout = fd::layout_of(static_cast<fd::TensorType>(number));
    if (!layout) continue;
    known.insert(number);
    names.insert(layout->name);
  }
  CHECK(known == std::set<std::uint32_t>{0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30});
  CHECK(names.size() == known.size());
  CHECK_FALSE(fd::row_bytes(static_cast<fd::TensorType>(4), 32));  // a format that was withdrawn
}

TEST_CASE("a format becomes the constant of its number, and nothing else becomes one") {
  for (std::uint32_t number = 0; number < 300; ++number) {
    const auto type = static_cast<fd::TensorType>(number);
    int calls = 0;
    fd::with_type(type, [&]<fd::TensorType kType>() {
      ++calls;
      CHECK(kType == type);
    });
    CHECK(calls == (fd::layout_of(type) ? 1 : 0));
  }
}

TEST_CASE("a row is a whole number of blocks, and its size does not wrap") {
  CHECK(fd::row_bytes(fd::TensorType::kQ6_K, 1536) == 6 * 210);
  CHECK(fd::row_bytes(fd::TensorType::kQ4_0, 0) == 0);
  CHECK_FALSE(fd::row_bytes(fd::TensorType::kQ6_K, 1536 - 32));
  CHECK_FALSE(fd::row_bytes(fd::TensorType::kQ4_0, 31));
  CHECK(fd::row_bytes(fd::TensorType::kF32, SIZE_MAX / 4) == SIZE_MAX / 4 * 4);
  CHECK_FALSE(fd::row_bytes(fd::TensorType::kF32, SIZE_MAX / 4 + 1));
}
