#include <foredraft/backend/row_format.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEMPLATE_TEST_CASE("a stored row comes back up to what its format rounds", "", float, fd::f16,
                   fd::bf16, fd::q8_0) {
  std::vector<float> values;
  for (int d = 0; d < 64; ++d) values.push_back(std::sin(static_cast<float>(d)));
  std::vector<TestType> row(fd::idx(fd::row_elements<TestType>(64)));
  fd::store_row(std::span<const float>(values), row.data());
  std::vector<float> back(64);
  fd::load_row(row.data(), std::span<float>(back));
  const float bound = std::is_same_v<TestType, float>      ? 0.0f
                      : std::is_same_v<TestType, fd::f16>  ? 0x1p-12f
                      : std::is_same_v<TestType, fd::bf16> ? 0x1p-9f
                                                           : 0.5f / 127;
  for (std::size_t d = 0; d < 64; ++d) CHECK(std::abs(back[d] - values[d]) <= bound);
  CHECK(row.size() * fd::kValuesPerElement<TestType> == 64);
}

TEMPLATE_TEST_CASE("a format known at run time stores what its type stores", "", float, fd::f16,
                   fd::bf16, fd::q8_0) {
  constexpr fd::RowFormat kFormat = fd::kFormatOf<TestType>;
  std::vector<float> values;
  for (int d = 0; d < 64; ++d) values.push_back(std::cos(static_cast<float>(d)));
  std::vector<TestType> typed(fd::idx(fd::row_elements<TestType>(64)));
  std::vector<std::byte> bytes(fd::row_bytes(kFormat, 64));
  REQUIRE(bytes.size() == typed.size() * sizeof(TestType));
  fd::store_row(std::span<const float>(values), typed.data());
  fd::store_row(kFormat, values, bytes.data());
  CHECK(std::memcmp(typed.data(), bytes.data(), bytes.size()) == 0);
  std::vector<float> from_type(64), from_format(64);
  fd::load_row(typed.data(), std::span<float>(from_type));
  fd::load_row(kFormat, bytes.data(), from_format);
  CHECK(from_type == from_format);
}

TEST_CASE("bytes of a row, and names") {
  for (const int d_head : {32, 64, 96, 256}) {
    CHECK(fd::row_bytes(fd::RowFormat::kF32, d_head) == fd::idx(4 * d_head));
    CHECK(fd::row_bytes(fd::RowFormat::kF16, d_head) == fd::idx(2 * d_head));
    CHECK(fd::row_bytes(fd::RowFormat::kBF16, d_head) == fd::idx(2 * d_head));
    CHECK(fd::row_bytes(fd::RowFormat::kQ8_0, d_head) == fd::idx(d_head / 32 * 34));
  }
  CHECK(fd::name_of(fd::RowFormat::kF32) == "f32");
  CHECK(fd::name_of(fd::RowFormat::kF16) == "f16");
  CHECK(fd::name_of(fd::RowFormat::kBF16) == "bf16");
  CHECK(fd::name_of(fd::RowFormat::kQ8_0) == "q8_0");
  CHECK(fd::values_in_element(fd::RowFormat::kF16) == 1);
  CHECK(fd::values_in_element(fd::RowFormat::kBF16) == 1);
  CHECK(fd::values_in_element(fd::RowFormat::kQ8_0) == 32);
}
