#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <foredraft/core/half.hpp>

#include "backend/cpu/simd_under_test.hpp"
#include "support/catch.hpp"
#include "support/skip.hpp"

namespace simd_under_test {

namespace fd = foredraft;

inline void check_dot(const Operations& simd) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::uint8_t w[64];
    std::uint8_t w_full[64];
    std::int8_t a[4];
    std::int32_t acc[16];
    for (int i = 0; i < 64; ++i) {
      // The first rounds are the corners at which 16-bit sums would saturate.
      w[i] = static_cast<std::uint8_t>(round < 4 ? 127 : random() % 128);
      w_full[i] = static_cast<std::uint8_t>(round < 2 ? 0 : round < 4 ? 255 : random() % 256);
    }
    for (auto& x : a)
      x = static_cast<std::int8_t>(round < 4 ? (round % 2 ? -127 : 127)
                                             : int(random() % 255) - 127);
    for (auto& x : acc) x = static_cast<std::int32_t>(random() % 100000) - 50000;
    std::int32_t out[16];
    std::int32_t out_full[16];
    simd.dot(acc, w, a, out);
    simd.dot_offset128(w_full, a, out_full);
    for (int lane = 0; lane < 16; ++lane) {
      std::int32_t expected = acc[lane];
      std::int32_t expected_full = 0;
      for (int i = 0; i < 4; ++i) {
        expected += w[4 * lane + i] * a[i];
        expected_full += (w_full[4 * lane + i] - 128) * a[i];
      }
      REQUIRE(out[lane] == expected);
      REQUIRE(out_full[lane] == expected_full);
    }
  }
}

inline void check_dot_pairs(const Operations& simd) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::int16_t w[32];
    std::int16_t a[2];
    std::int32_t acc[16];
    std::int32_t out[16];
    // The greatest sum of products that fits an int16, or anything below.
    for (auto& x : w)
      x = static_cast<std::int16_t>(round == 0 ? -32004 : int(random() % 64009) - 32004);
    for (auto& x : a)
      x = static_cast<std::int16_t>(round == 0 ? -32767 : int(random() % 65535) - 32767);
    for (auto& x : acc) x = static_cast<std::int32_t>(random() % 1000) - 500;
    simd.dot_pairs(acc, w, a, out);
    for (int lane = 0; lane < 16; ++lane) {
      REQUIRE(out[lane] == acc[lane] + w[2 * lane] * a[0] + w[2 * lane + 1] * a[1]);
    }
  }
  std::uint8_t bytes[32];
  std::int16_t widened[32];
  for (auto& x : bytes) x = static_cast<std::uint8_t>(random());
  simd.widen_pairs(bytes, widened);
  for (int i = 0; i < 32; ++i) REQUIRE(widened[i] == bytes[i]);
}

inline void check_dot_sixteen(const Operations& simd) {
  std::mt19937 random(6);
  std::uint8_t w[64];
  std::int8_t a[16];
  std::int32_t out[4][16];
  for (auto& x : w) x = static_cast<std::uint8_t>(random() % 128);
  for (auto& x : a) x = static_cast<std::int8_t>(int(random() % 255) - 127);
  simd.dot_sixteen(w, a, out);
  for (int j = 0; j < 4; ++j) {
    for (int lane = 0; lane < 16; ++lane) {
      std::int32_t expected = 0;
      for (int i = 0; i < 4; ++i) expected += w[4 * lane + i] * a[4 * j + i];
      REQUIRE(out[j][lane] == expected);
    }
  }
}

inline void check_halves(const Operations& simd) {
  std::mt19937 random(4);
  std::int16_t v[16] = {0, 1, -1, 32767, -32768};
  for (int i = 5; i < 16; ++i) v[i] = static_cast<std::int16_t>(random());
  std::int32_t low[16];
  std::int32_t both[16];
  simd.halves(v, low, both);
  for (int lane = 0; lane < 16; ++lane) {
    const auto bits = std::uint32_t{static_cast<std::uint16_t>(v[lane])};
    CHECK(std::bit_cast<std::uint32_t>(low[lane]) == bits);
    CHECK(std::bit_cast<std::uint32_t>(both[lane]) == (bits | bits << 16));
  }
}

inline void check_merge(const Operations& simd) {
  std::mt19937 random(3);
  std::uint8_t codes[64];
  std::uint8_t plane[64];
  for (auto& x : codes) x = static_cast<std::uint8_t>(random());
  for (auto& x : plane) x = static_cast<std::uint8_t>(random());
  for (const int bits : {1, 2}) {
    std::uint8_t even[64];
    std::uint8_t odd[64];
    simd.merge(codes, plane, bits, even, odd);
    const int mask = (1 << bits) - 1;
    for (int i = 0; i < 64; ++i) {
      REQUIRE(even[i] == ((codes[i] & 15) | (plane[i] >> (2 * bits) & mask) << 4));
      REQUIRE(odd[i] == (codes[i] >> 4 | (plane[i] >> (3 * bits) & mask) << 4));
    }
  }
}

inline void check_conversions(const Operations& simd) {
  int n_wrong = 0;
  for (unsigned first = 0; first < 0x10000; first += 16) {
    std::uint16_t bits[16];
    for (unsigned i = 0; i < 16; ++i) bits[i] = static_cast<std::uint16_t>(first + i);
    float halves[16];
    float bfloats[16];
    simd.convert(bits, bits, halves, bfloats);
    for (int i = 0; i < 16; ++i) {
      const float half = fd::half_to_float(bits[i]);
      const float bfloat = fd::bfloat16_to_float(bits[i]);
      // A signalling NaN may come out quiet.
      const bool same_half = std::isnan(half) ? std::isnan(halves[i])
                                              : std::bit_cast<std::uint32_t>(half) ==
                                                    std::bit_cast<std::uint32_t>(halves[i]);
      const bool same_bfloat =
          std::bit_cast<std::uint32_t>(bfloat) == std::bit_cast<std::uint32_t>(bfloats[i]);
      if (!same_half || !(same_bfloat || std::isnan(bfloat))) ++n_wrong;
    }
  }
  CHECK(n_wrong == 0);
}

inline void check_round(const Operations& simd) {
  const float x[16] = {0.5f,        1.5f,    2.5f,   -0.5f, -1.5f, -2.5f, 126.5f, -126.5f,
                       0.49999997f, -127.0f, 127.0f, 3.2f,  -3.7f, 0.0f,  -0.0f,  1e-30f};
  const std::int8_t expected[16] = {0, 2, 2, 0, -2, -2, 126, -126, 0, -127, 127, 3, -4, 0, 0, 0};
  std::int8_t rounded[16];
  std::int32_t magnitudes[16];
  simd.round(x, rounded, magnitudes);
  for (int i = 0; i < 16; ++i) {
    CHECK(rounded[i] == expected[i]);
    CHECK(magnitudes[i] == std::bit_cast<std::int32_t>(std::fabs(x[i])));
  }
}

inline void check_fma(const Operations& simd) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  float a[16], b[16], c[16], sum[16], difference[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = normal(random);
    b[i] = normal(random);
    c[i] = normal(random);
  }
  simd.fma(a, b, c, sum, difference);
  constexpr double kUlp = std::numeric_limits<float>::epsilon();
  for (int i = 0; i < 16; ++i) {
    const double product = double(a[i]) * double(b[i]);
    const double bound = kUlp * (std::abs(product) + std::abs(double(c[i])));
    CHECK(std::abs(sum[i] - (product + c[i])) <= bound);
    CHECK(std::abs(difference[i] - (c[i] - product)) <= bound);
  }
}

/// All operations of one instruction set, where this machine executes it.
inline void check_operations(const Operations& simd) {
  if (!cpu::executable(simd.isa)) {
    return skip("this machine does not execute " + std::string(cpu::name_of(simd.isa)));
  }
  SECTION("dot products of bytes are exact up to the largest weights and activations") {
    check_dot(simd);
  }
  SECTION("dot products of pairs") { check_dot_pairs(simd); }
  // Two that only some sets have.
  if (simd.dot_sixteen != nullptr) {
    SECTION("four codes of sixteen") { check_dot_sixteen(simd); }
  }
  if (simd.halves != nullptr) {
    SECTION("halves of int32") { check_halves(simd); }
  }
  SECTION("nibbles and high bits are put together") { check_merge(simd); }
  SECTION("every half and bfloat16 converts as in core/half.hpp") { check_conversions(simd); }
  SECTION("rounding goes to the nearest integer, ties to even") { check_round(simd); }
  SECTION("multiply and add is within one rounding of each step") { check_fma(simd); }
}

}  // namespace simd_under_test
