#include <foredraft/core/half.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Value of a half by the definition of the format.
double value_of(int bits) {
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_nan(int bits) { return (bits & 0x7fff) > 0x7c00; }

int to_half(double value) { return fd::float_to_half(static_cast<float>(value)); }

}  // namespace

TEST_CASE("all halves have the value of the format and come back as they were") {
  int wrong_value = 0;
  int wrong_bits = 0;
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = fd::half_to_float(static_cast<std::uint16_t>(bits));
    if (is_nan(bits)) {
      wrong_value += !std::isnan(value);
      // A NaN becomes quiet and keeps its sign and payload.
      wrong_bits += fd::float_to_half(value) != (bits | 0x200);
      continue;
    }
    wrong_value += value != value_of(bits) || std::signbit(value) != (bits >= 0x8000);
    wrong_bits += fd::float_to_half(value) != bits;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_bits == 0);
}

TEST_CASE("between two halves the nearer is taken, half way the even one") {
  int wrong = 0;
  for (int low = 0; low < 0x7c00; ++low) {
    // What lies behind the greatest finite half is 2^16: a tie with infinity goes to infinity.
    const double above = low == 0x7bff ? 65536.0 : value_of(low + 1);
    const double middle = (value_of(low) + above) / 2;  // exact in binary32
    const int even = low % 2 == 0 ? low : low + 1;
    const auto middle_float = static_cast<float>(middle);
    for (const int sign : {0, 0x8000}) {
      const float unit = sign ? -1.0f : 1.0f;
      wrong += fd::float_to_half(unit * middle_float) != (even | sign);
      wrong += fd::float_to_half(unit * std::nextafter(middle_float, 0.0f)) != (low | sign);
      wrong += fd::float_to_half(unit * std::nextafter(middle_float, 1e30f)) != ((low + 1) | sign);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("values out of range become zero or infinity") {
  CHECK(to_half(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(to_half(-std::ldexp(1.0, -26)) == 0x8000);
  CHECK(to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(to_half(-kInfinity) == 0xfc00);
}

TEST_CASE("bfloat16 is the upper half of a float") {
  CHECK(fd::bfloat16_to_float(0x3f80) == 1.0f);
  CHECK(fd::bfloat16_to_float(0xc049) == -3.140625f);
  CHECK(fd::bfloat16_to_float(0x0001) == std::ldexp(1.0f, -133));
  CHECK(std::isnan(fd::bfloat16_to_float(0x7fc0)));
}

TEST_CASE("a float becomes the nearest bfloat16, the even one of two") {
  for (unsigned bits = 0; bits < 0x10000u; bits += 7) {
    const float value = fd::bfloat16_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) CHECK(fd::float_to_bfloat16(value) == bits);
  }
  CHECK(fd::float_to_bfloat16(0x1.01p0f) == 0x3f80);         // a tie, down
  CHECK(fd::float_to_bfloat16(0x1.03p0f) == 0x3f82);         // a tie, up
  CHECK(fd::float_to_bfloat16(0x1.010002p0f) == 0x3f81);     // a little more than one
  CHECK(fd::float_to_bfloat16(-0x1.fffffep127f) == 0xff80);  // nearer to infinity
  CHECK(std::isnan(fd::bfloat16_to_float(fd::float_to_bfloat16(NAN))));
  const float payload = std::bit_cast<float>(0x7f800001u);  // would round to infinity
  CHECK(std::isnan(fd::bfloat16_to_float(fd::float_to_bfloat16(payload))));
}
