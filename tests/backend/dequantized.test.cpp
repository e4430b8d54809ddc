#include <foredraft/backend/dequantized.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {
fd::ErrorCode code_of(const fd::TensorView& view) {
  try {
    fd::checked_bytes(view);
  } catch (const fd::Error& error) {
    return error.code();
  }
  FAIL("no error");
  return {};
}
}  // namespace

TEST_CASE("values of a matrix and of a vector") {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto bytes = std::as_bytes(std::span<const float>(values));
  CHECK(fd::checked_bytes({fd::TensorType::kF32, 2, 3, bytes}) == 24);
  CHECK(fd::dequantized({fd::TensorType::kF32, 2, 3, bytes}) == values);
  CHECK(fd::dequantized_vector({fd::TensorType::kF32, 1, 6, bytes}) == values);
  CHECK_THROWS_AS(fd::dequantized_vector({fd::TensorType::kF32, 2, 3, bytes}), fd::Error);
}

TEST_CASE("views that hold less than they say") {
  const std::vector<std::byte> bytes(34);
  CHECK(fd::checked_bytes({fd::TensorType::kQ8_0, 1, 32, bytes}) == 34);
  CHECK(code_of({fd::TensorType::kQ8_0, 2, 32, bytes}) == fd::ErrorCode::kShapeMismatch);
  CHECK(code_of({fd::TensorType::kQ8_0, 1, 33, bytes}) == fd::ErrorCode::kShapeMismatch);
  CHECK(code_of({fd::TensorType::kQ8_0, 0, 32, bytes}) == fd::ErrorCode::kShapeMismatch);
  CHECK(code_of({fd::TensorType::kQ8_0, 1, 0, bytes}) == fd::ErrorCode::kShapeMismatch);
  CHECK(code_of({fd::TensorType{99}, 1, 32, bytes}) == fd::ErrorCode::kShapeMismatch);
  CHECK(code_of({fd::TensorType::kF32, std::size_t{1} << 62, 8, bytes}) ==
        fd::ErrorCode::kShapeMismatch);
}
