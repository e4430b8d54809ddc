#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace foredraft::inline v0::cuda {

/// d and 16 products, as a Hopper adds them up: each is cut off 25 places below the first digit of the
/// greatest one, and their sum, which is exact then, to the 24 digits of a float. Found from what
/// attention made of its inputs on an H200.
inline float sum_of_tensor_core(float d, const double* row, const double* column) noexcept {
  double terms[17] = {static_cast<double>(d)};
  double greatest = std::abs(terms[0]), plain = terms[0];
  for (int k = 0; k < 16; ++k) {
    terms[k + 1] = row[k] * column[k];
    greatest = std::max(greatest, std::abs(terms[k + 1]));
    plain += terms[k + 1];
  }
  if (greatest == 0 || !std::isfinite(plain)) return static_cast<float>(plain);
  // Places behind the point. No product of what a factor can be is subnormal in double.
  const int places = 25 - (static_cast<int>(std::bit_cast<std::uint64_t>(greatest) >> 52) - 1023);
  const auto scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + places) << 52);
  std::int64_t sum = 0;
  for (const double term : terms) sum += static_cast<std::int64_t>(term * scale);
  const std::int64_t magnitude = sum < 0 ? -sum : sum;
  const int cut =
      std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(magnitude))) - 24);
  const double kept = static_cast<double>(magnitude >> cut << cut);
  return static_cast<float>((sum < 0 ? -kept : kept) / scale);
}

}  // namespace foredraft::inline v0::cuda
