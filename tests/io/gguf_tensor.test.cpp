#include <foredraft/io/gguf_tensor.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Shape = std::vector<std::uint64_t>;

std::optional<std::uint64_t> bytes_of(fd::TensorType type, Shape shape) {
  return fd::data_bytes({"w", type, static_cast<std::uint32_t>(type), std::move(shape), 0, {}});
}

std::string refusal(fd::TensorType type, Shape shape) {
  try {
    bytes_of(type, std::move(shape));
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kCorruptFile);
    return e.what();
  }
  return "accepted";
}

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr auto kUnknown = static_cast<fd::TensorType>(10);

}  // namespace

TEST_CASE("sizes follow from shape and type") {
  CHECK(bytes_of(fd::TensorType::kF32, {}) == 4);
  CHECK(bytes_of(fd::TensorType::kF32, {3, 5, 7, 2}) == 840);
  CHECK(bytes_of(fd::TensorType::kQ4_K, {512, 3}) == 2 * 144 * 3);
  CHECK(bytes_of(fd::TensorType::kF16, {0}) == 0);
  CHECK(bytes_of(fd::TensorType::kF16, {8, 0, 5}) == 0);
  CHECK(bytes_of(kUnknown, {7}) == std::nullopt);
}

TEST_CASE("no product of dimensions wraps unseen") {
  const std::string too_many = "fewer than 2^63 elements";
  for (const Shape& shape :
       {Shape{kMost, 2}, Shape{kMost, 2, 1, 1}, Shape{kMost + 1}, Shape{UINT64_MAX},
        Shape{std::uint64_t{1} << 32, std::uint64_t{1} << 32},
        // wraps to 4
        Shape{4194305, 4194305, 211106198978564},
        // an empty dimension does not excuse the others
        Shape{kMost, 4, 0}, Shape{0, kMost, 4}}) {
    for (const auto type : {fd::TensorType::kF32, fd::TensorType::kQ4_0, kUnknown}) {
      const std::string error = refusal(type, shape);
      INFO(error);
      CHECK(error.find(too_many) != error.npos);
      CHECK(error.find("\"w\"") != error.npos);
    }
  }
  // The elements fit, the bytes do not: one row, then many rows.
  CHECK(refusal(fd::TensorType::kF32, {kMost}).find("below 2^64") != std::string::npos);
  CHECK(refusal(fd::TensorType::kF32, {4, kMost / 4}).find("below 2^64") != std::string::npos);
}

TEST_CASE("rows are whole blocks") {
  CHECK(refusal(fd::TensorType::kQ4_0, {33}).find("multiple of 32") != std::string::npos);
  CHECK(refusal(fd::TensorType::kQ6_K, {128, 2}).find("multiple of 256") != std::string::npos);
  CHECK(refusal(fd::TensorType::kQ8_0, {}).find("rows of 1 values") != std::string::npos);
}
