#include <foredraft/core/quantize.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Block = std::array<float, 32>;

struct Quantized {
  std::vector<std::byte> bytes;
  Block values{};  // what the bytes say
  float scale = 0;
};

Quantized quantized(fd::TensorType type, const Block& block) {
  Quantized result;
  result.bytes.resize(fd::layout_of(type)->bytes);
  REQUIRE(fd::quantize_row(type, block.data(), block.size(), result.bytes.data()));
  fd::dequantize_row(type, result.bytes.data(), block.size(), result.values.data());
  result.scale = fd::half_to_float(fd::detail::load_u16(result.bytes.data()));
  return result;
}

double squared_error(const Block& a, const Block& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  }
  return sum;
}

/// Q4_0 with the scale that gives the extreme value code -8.
Block usual_q4(const Block& block) {
  float extreme = 0;
  for (const float x : block) {
    if (std::abs(x) > std::abs(extreme)) extreme = x;
  }
  const float scale = fd::half_to_float(fd::float_to_half(extreme / -8));
  Block result{};
  for (std::size_t i = 0; i < block.size(); ++i) {
    const double code = scale == 0 ? 0 : std::floor(static_cast<double>(block[i]) / scale + 0.5);
    result[i] = scale * static_cast<float>(std::min(7.0, std::max(-8.0, code)));
  }
  return result;
}

Block random_block(std::mt19937& random, float scale, bool heavy_tails) {
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> tails(3);
  Block block;
  for (float& x : block) x = scale * (heavy_tails ? tails(random) : normal(random));
  return block;
}

}  // namespace

TEST_CASE("Q8_0 is off by half a scale at most, and Q4_0 by no more than the usual scale") {
  std::mt19937 random(1);
  double error = 0, usual_error = 0;
  // Down to scales that binary16 holds with a bit or two.
  for (const float scale : {1e-7f, 1e-6f, 1e-4f, 0.02f, 1.0f, 300.0f, 20000.0f}) {
    for (int trial = 0; trial < 400; ++trial) {
      const Block block = random_block(random, scale, trial % 2 == 0);
      CAPTURE(scale, trial);
      const Quantized q8 = quantized(fd::TensorType::kQ8_0, block);
      float furthest = 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        furthest = std::max(furthest, std::abs(block[i] - q8.values[i]));
      }
      CHECK(furthest <= 0.5001f * q8.scale);

      const double ours = squared_error(block, quantized(fd::TensorType::kQ4_0, block).values);
      const double usual = squared_error(block, usual_q4(block));
      if (scale >= 1e-3f) {  // below, scales have too few bits for the best one to matter
        CHECK(ours <= usual * 1.001);
        error += ours / (scale * scale);
        usual_error += usual / (scale * scale);
      }
    }
  }
  CHECK(error < 0.95 * usual_error);
}

TEST_CASE("what a format can hold stays as it is") {
  std::mt19937 random(2);
  Block block;
  for (float& x : block) x = 0.25f * static_cast<float>(static_cast<int>(random() % 16) - 8);
  block[3] = -2.0f;  // code -8 fixes the scale
  CHECK(quantized(fd::TensorType::kQ4_0, block).values == block);
  for (float& x : block) x = 0.5f * static_cast<float>(static_cast<int>(random() % 255) - 127);
  block[9] = 63.5f;
  CHECK(quantized(fd::TensorType::kQ8_0, block).values == block);
}

TEST_CASE("blocks at the ends") {
  for (const auto type : {fd::TensorType::kQ4_0, fd::TensorType::kQ8_0}) {
    CAPTURE(fd::layout_of(type)->name);
    CHECK(quantized(type, Block{}).values == Block{});
    Block block{};
    for (const float alone : {1e-38f, -1e-12f, 1e-7f, -3.0f, 65504.0f, -500000.0f}) {
      block[17] = alone;
      CAPTURE(alone);
      const Quantized result = quantized(type, block);
      CHECK(std::abs(result.values[17] - alone) <= 0.002f * std::abs(alone) + 0x1p-22f);
      for (std::size_t i = 0; i < block.size(); ++i) {
        if (i != 17) CHECK(result.values[i] == 0.0f);
      }
    }
    // Refused wherever it stands.
    std::vector<std::byte> out(fd::layout_of(type)->bytes);
    const float beyond = type == fd::TensorType::kQ4_0 ? 600000.0f : 9e6f;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), beyond, -beyond,
                            std::numeric_limits<float>::infinity()}) {
      for (std::size_t place = 0; place < 32; ++place) {
        Block other;
        other.fill(1.0f);
        other[place] = bad;
        CHECK(!fd::quantize_row(type, other.data(), other.size(), out.data()));
      }
    }
  }
}

TEST_CASE("only Q4_0 and Q8_0 are written") {
  const Block block{};
  std::vector<std::byte> out(64);
  for (const auto type : {fd::TensorType::kF32, fd::TensorType::kQ4_1, fd::TensorType::kQ6_K}) {
    CHECK(!fd::quantizable(type));
    CHECK(!fd::quantize_row(type, block.data(), block.size(), out.data()));
  }
}

TEST_CASE("a row from any format is quantized as its values are") {
  std::mt19937 random(3);
  for (const auto from :
       {fd::TensorType::kF32, fd::TensorType::kF16, fd::TensorType::kBF16, fd::TensorType::kQ5_0,
        fd::TensorType::kQ8_0, fd::TensorType::kQ5_K, fd::TensorType::kQ6_K}) {
    for (const std::size_t n : {std::size_t{32}, std::size_t{288}, std::size_t{512}}) {
      const auto size = fd::row_bytes(from, n);
      if (!size) continue;
      std::vector<std::byte> row(*size);
      // Small positive scales wherever a format has one: no byte has its upper bits set.
      for (auto& byte : row) byte = static_cast<std::byte>(random() % 64);
      std::vector<float> values(n);
      fd::dequantize_row(from, row.data(), n, values.data());
      for (const auto to : {fd::TensorType::kQ4_0, fd::TensorType::kQ8_0}) {
        std::vector<std::byte> direct(*fd::row_bytes(to, n)), through_floats(direct.size());
        REQUIRE(fd::quantize_row(to, values.data(), n, through_floats.data()));
        REQUIRE(fd::requantize_row(from, row.data(), n, to, direct.data()));
        CHECK(direct == through_floats);
      }
    }
  }
}
