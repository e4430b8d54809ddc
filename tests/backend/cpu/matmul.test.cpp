#include <foredraft/backend/cpu/matmul.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/core/dequantize.hpp>

#include "backend/cpu/aligned_bytes.hpp"
#include "backend/cpu/for_each_table.hpp"
#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using cpu::Epilogue;
using kernels_under_test::AlignedBytes;
using kernels_under_test::columns_of;
using kernels_under_test::FileMatrix;
using Kernels = cpu::KernelTable;
using kernels_under_test::kTypes;
using kernels_under_test::random_matrix;

namespace {

cpu::PackedMatrix pack(const FileMatrix& file) {
  auto packed = cpu::PackedMatrix::allocate(file.type, file.n_out, file.n_in);
  packed.pack_panels(file.view(), 0, packed.n_panels());
  return packed;
}

std::vector<float> random_rows(std::size_t n_rows, std::size_t n_in, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n_rows * n_in);
  for (auto& value : x) value = normal(random);
  return x;
}

/// Rows stored for the matrix, and what their codes stand for.
struct Input {
  Input(const Kernels& kernels, fd::TensorType type, const std::vector<float>& x,
        std::size_t n_rows)
      : n_in(x.size() / n_rows),
        memory(cpu::Activations::bytes(cpu::activation_format(type), static_cast<int>(n_rows),
                                       static_cast<int>(n_in))),
        view{cpu::activation_format(type), static_cast<int>(n_rows), static_cast<int>(n_in),
             memory.data()} {
    for (std::size_t m = 0; m < n_rows; ++m) {
      kernels.quantize_row(x.data() + m * n_in, view, static_cast<int>(m), 0, view.n_in);
    }
  }

  double value(std::size_t m, std::size_t k) const { return code(m, k) * scale(m, k); }
  double scale(std::size_t m, std::size_t k) const {
    const std::byte* scales = view.scales(static_cast<int>(m), block(k));
    switch (view.format) {
      case cpu::ActivationFormat::kF32: return 1.0;
      case cpu::ActivationFormat::kInt8Per32:
        return reinterpret_cast<const cpu::ScalesPer32*>(scales)->scales[k % 64 / 32];
      case cpu::ActivationFormat::kInt8Per256:
        return reinterpret_cast<const cpu::ScalesPer256*>(scales)->scale;
    }
    return 0.0;
  }

  std::size_t n_in;
  AlignedBytes memory;
  cpu::Activations view;

 private:
  int block(std::size_t k) const {
    return static_cast<int>(k) / cpu::activation_block_k(view.format);
  }
  double code(std::size_t m, std::size_t k) const {
    const std::byte* codes = view.codes(static_cast<int>(m), block(k));
    const std::size_t i = k % fd::idx(cpu::activation_block_k(view.format));
    if (view.format == cpu::ActivationFormat::kF32) return reinterpret_cast<const float*>(codes)[i];
    return reinterpret_cast<const std::int8_t*>(codes)[i];
  }
};

std::vector<float> multiply(const Kernels& kernels, const cpu::PackedMatrix& w,
                            const Input& input) {
  const auto n_out = fd::idx(w.n_out());
  std::vector<float> out(fd::idx(input.view.n_rows) * n_out);
  kernels.matmul(w.panels(), input.view, 0, w.n_panels(), out.data(), n_out, {});
  return out;
}

/// Compare with sums in double: exactly the same codes up to the float steps, the given floats up
/// to their rounding.
void check_against_double(const Kernels& kernels, const FileMatrix& file,
                          const std::vector<float>& x, std::size_t n_rows) {
  const auto packed = pack(file);
  const Input input(kernels, file.type, x, n_rows);
  const auto out = multiply(kernels, packed, input);
  std::vector<float> w(file.n_in);
  std::size_t n_wrong = 0;
  for (std::size_t n = 0; n < file.n_out; ++n) {
    fd::dequantize_row(file.type, file.bytes.data() + n * file.row_size(), file.n_in, w.data());
    for (std::size_t m = 0; m < n_rows; ++m) {
      double same_codes = 0, given = 0, magnitude = 0, rounding = 0;
      for (std::size_t k = 0; k < file.n_in; ++k) {
        const double weight = w[k];
        same_codes += weight * input.value(m, k);
        given += weight * x[m * file.n_in + k];
        magnitude += std::abs(weight * input.value(m, k));
        if (input.view.format != cpu::ActivationFormat::kF32)
          rounding += std::abs(weight) * 0.5001 * input.scale(m, k);
      }
      // Formats with a minimum subtract two sums that may each be larger than the result.
      const double tight = 4e-6 * magnitude * (cpu::has_min(file.type) ? 8 : 1) + 1e-30;
      const double y = out[m * file.n_out + n];
      if (!(std::abs(y - same_codes) <= tight)) ++n_wrong;
      if (!(std::abs(y - given) <= rounding + tight)) ++n_wrong;
    }
  }
  CHECK(n_wrong == 0);
}

bool same_bits(const float* a, const float* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("products agree with sums in double") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : kTypes) {
      for (const std::size_t n_in : columns_of(type)) {
        CAPTURE(fd::layout_of(type)->name, n_in);
        check_against_double(kernels, random_matrix(type, 37, n_in, 21), random_rows(11, n_in, 22),
                             11);
      }
    }
  });
}

TEST_CASE("a row has the same bits whatever is computed beside it") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : kTypes) {
      const std::size_t n_in = columns_of(type).back();
      const std::size_t n_out = 53;  // three panels and five rows
      CAPTURE(fd::layout_of(type)->name);
      const auto packed = pack(random_matrix(type, n_out, n_in, 31));
      const auto x = random_rows(33, n_in, 32);

      std::vector<float> alone;
      for (std::size_t m = 0; m < 33; ++m) {
        const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(m * n_in),
                                     x.begin() + static_cast<std::ptrdiff_t>((m + 1) * n_in));
        const auto y = multiply(kernels, packed, Input(kernels, type, row, 1));
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (std::size_t n_rows = 2; n_rows <= 33; ++n_rows) {
        const std::vector<float> some(x.begin(),
                                      x.begin() + static_cast<std::ptrdiff_t>(n_rows * n_in));
        const auto out = multiply(kernels, packed, Input(kernels, type, some, n_rows));
        CAPTURE(n_rows);
        REQUIRE(same_bits(out.data(), alone.data(), out.size()));
      }

      // Panels one by one and in other divisions, backwards.
      const Input input(kernels, type, x, 33);
      for (const int step : {1, 3}) {
        std::vector<float> out(33 * n_out, -1.0f);
        for (int begin = (packed.n_panels() - 1) / step * step; begin >= 0; begin -= step) {
          const int end = std::min(begin + step, packed.n_panels());
          kernels.matmul(packed.panels(), input.view, begin, end, out.data(), n_out, {});
        }
        CHECK(same_bits(out.data(), alone.data(), out.size()));
      }
    }
  });
}

TEST_CASE("long runs of panels are cut to the cache without changing a bit") {
  for_each_table([](const Kernels& kernels) {
    // 16 panels of 14 KB are more than one run of the tiles of several groups of rows.
    const auto packed = pack(random_matrix(fd::TensorType::kQ4_K, 256, 1536, 41));
    const auto x = random_rows(9, 1536, 42);
    const auto together = multiply(kernels, packed, Input(kernels, fd::TensorType::kQ4_K, x, 9));
    const std::vector<float> last(x.end() - 1536, x.end());
    const auto alone = multiply(kernels, packed, Input(kernels, fd::TensorType::kQ4_K, last, 1));
    CHECK(same_bits(together.data() + 8 * 256, alone.data(), 256));
  });
}

TEST_CASE("the largest codes do not saturate") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : kTypes) {
      if (fd::quant_geometry(type).elements == 0) continue;
      for (const int byte : {0xff, 0x00, 0x7f, 0x80}) {
        for (const int scale_byte : {0xff, 0x7f, 0x80}) {
          FileMatrix file = random_matrix(type, 16, 256, 1);
          std::fill(file.bytes.begin(), file.bytes.end(), static_cast<std::byte>(byte));
          kernels_under_test::set_scales(file, [] { return fd::float_to_half(1.0f); });
          kernels_under_test::set_sub_block_scales(file, static_cast<std::byte>(scale_byte));
          for (const float activation : {1.0f, -1.0f}) {
            CAPTURE(fd::layout_of(type)->name, byte, scale_byte, activation);
            // All codes of the activations are 127 or -127.
            check_against_double(kernels, file, std::vector<float>(3 * 256, activation), 3);
          }
          if (!fd::cpu::scaled_per_256(type)) break;
        }
      }
    }
  });
}

TEST_CASE("zero and subnormal scales, zero rows") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : kTypes) {
      CAPTURE(fd::layout_of(type)->name);
      FileMatrix file = random_matrix(type, 16, 256, 2);
      const auto x = random_rows(2, 256, 3);
      if (fd::quant_geometry(type).elements != 0) {
        const std::uint16_t scales[] = {0x0001, 0x8001, 0x0000, 0x03ff};
        std::size_t next = 0;
        kernels_under_test::set_scales(file, [&] { return scales[next++ % 4]; });
      }
      check_against_double(kernels, file, x, 2);
      const std::vector<float> zeros(3 * 256, 0.0f);
      const auto out = multiply(kernels, pack(file), Input(kernels, type, zeros, 3));
      CHECK(std::all_of(out.begin(), out.end(), [](float y) { return y == 0.0f; }));
    }
  });
}

TEST_CASE("what is not a number stays visible, and only in its own row") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : kTypes) {
      CAPTURE(fd::layout_of(type)->name);
      const auto packed = pack(random_matrix(type, 16, 256, 4));
      auto x = random_rows(3, 256, 5);
      x[256 + 77] = std::numeric_limits<float>::quiet_NaN();
      const auto out = multiply(kernels, packed, Input(kernels, type, x, 3));
      for (std::size_t n = 0; n < 16; ++n) {
        CHECK(std::isfinite(out[n]));
        CHECK(std::isnan(out[16 + n]));
        CHECK(std::isfinite(out[32 + n]));
      }
    }
  });
}

TEST_CASE("bias, accumulation and nothing beyond the last output") {
  for_each_table([](const Kernels& kernels) {
    for (const fd::TensorType type : {fd::TensorType::kQ4_K, fd::TensorType::kF16}) {
      const std::size_t n_out = 21, ld_out = 40, n_rows = 5;
      const auto packed = pack(random_matrix(type, n_out, 256, 51));
      const Input input(kernels, type, random_rows(n_rows, 256, 52), n_rows);
      const auto plain = multiply(kernels, packed, input);
      // Exactly n_out values, so that a sanitizer sees a read beyond them.
      const auto bias = random_rows(1, n_out, 53);
      const auto before = random_rows(n_rows, ld_out, 54);
      auto biased = before;
      auto accumulated = before;
      kernels.matmul(packed.panels(), input.view, 0, packed.n_panels(), biased.data(), ld_out,
                     {Epilogue::Kind::kAddBias, bias.data()});
      kernels.matmul(packed.panels(), input.view, 0, packed.n_panels(), accumulated.data(), ld_out,
                     {Epilogue::Kind::kAccumulate, nullptr});
      for (std::size_t m = 0; m < n_rows; ++m) {
        for (std::size_t n = 0; n < ld_out; ++n) {
          const std::size_t i = m * ld_out + n;
          const float y = n < n_out ? plain[m * n_out + n] : 0.0f;
          REQUIRE(biased[i] == (n < n_out ? y + bias[n] : before[i]));
          REQUIRE(accumulated[i] == (n < n_out ? before[i] + y : before[i]));
        }
      }
    }
  });
}
