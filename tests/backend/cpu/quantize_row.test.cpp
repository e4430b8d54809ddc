#include <foredraft/backend/cpu/quantize_row.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/aligned_bytes.hpp"
#include "backend/cpu/for_each_table.hpp"
#include "support/catch.hpp"

namespace cpu = foredraft::cpu;
using cpu::ActivationFormat;
using kernels_under_test::AlignedBytes;
using Kernels = cpu::KernelTable;

namespace {

std::vector<float> random_row(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (auto& x : row) x = normal(random);
  row[n / 3] *= 30.0f;  // activations have outliers
  return row;
}

/// One row on its own.
struct Row {
  Row(const Kernels& kernels, ActivationFormat format, const std::vector<float>& x)
      : memory(cpu::Activations::bytes(format, 1, static_cast<int>(x.size()))),
        view{format, 1, static_cast<int>(x.size()), memory.data()} {
    kernels.quantize_row(x.data(), view, 0, 0, view.n_in);
  }
  const std::int8_t* codes(int block) const {
    return reinterpret_cast<const std::int8_t*>(view.codes(0, block));
  }
  const cpu::ScalesPer32& per_32(int block) const {
    return *reinterpret_cast<const cpu::ScalesPer32*>(view.scales(0, block));
  }
  const cpu::ScalesPer256& per_256(int block) const {
    return *reinterpret_cast<const cpu::ScalesPer256*>(view.scales(0, block));
  }

  AlignedBytes memory;
  cpu::Activations view;
};

/// Codes, scale and sums agree with each other and with the n values they stand for.
template <typename Sum>
void check_run(const float* x, int n, const std::int8_t* codes, float scale, Sum&& sum) {
  float greatest = 0.0f;
  int total = 0;
  for (int i = 0; i < n; ++i) {
    greatest = std::max(greatest, std::fabs(x[i]));
    REQUIRE(std::fabs(x[i] - scale * static_cast<float>(codes[i])) <= 0.5001f * scale);
    REQUIRE(codes[i] >= -127);
    total += codes[i];
  }
  CHECK(scale == greatest / 127.0f);
  CHECK(sum() == total);
}

}  // namespace

TEST_CASE("K-quant activations: one scale for 256 values") {
  for_each_table([](const Kernels& kernels) {
    const auto x = random_row(768, 1);
    const Row row(kernels, ActivationFormat::kInt8Per256, x);
    for (int b = 0; b < 3; ++b) {
      const std::int8_t* codes = row.codes(b);
      const auto& block = row.per_256(b);
      check_run(x.data() + 256 * b, 256, codes, block.scale, [&] {
        int total = 0;
        for (const auto sum : block.sums) total += sum;
        return total;
      });
      for (int s = 0; s < 16; ++s) {
        int sum = 0;
        for (int i = 0; i < 16; ++i) sum += codes[16 * s + i];
        REQUIRE(block.negated_sums[s] == -sum);
      }
      for (int s = 0; s < 8; ++s) {
        REQUIRE(block.sums[s] == -block.negated_sums[2 * s] - block.negated_sums[2 * s + 1]);
      }
    }
  });
}

TEST_CASE("activations with one scale for 32 values, padded to 64") {
  for_each_table([](const Kernels& kernels) {
    const auto x = random_row(96, 2);
    const Row row(kernels, ActivationFormat::kInt8Per32, x);
    for (int s = 0; s < 3; ++s) {
      const auto& block = row.per_32(s / 2);
      const std::int8_t* codes = row.codes(s / 2) + 32 * (s % 2);
      check_run(x.data() + 32 * s, 32, codes, block.scales[s % 2],
                [&] { return -block.negated_sums[s % 2]; });
      CHECK(block.scaled_sums[s % 2] ==
            -block.scales[s % 2] * static_cast<float>(block.negated_sums[s % 2]));
    }
    const auto& last = row.per_32(1);
    CHECK(last.scales[1] == 0.0f);
    CHECK(last.negated_sums[1] == 0);
    CHECK(last.scaled_sums[1] == 0.0f);
    for (int i = 32; i < 64; ++i) CHECK(row.codes(1)[i] == 0);
  });
}

TEST_CASE("float activations are copied and padded to 16") {
  for_each_table([](const Kernels& kernels) {
    const auto x = random_row(37, 3);
    const Row row(kernels, ActivationFormat::kF32, x);
    for (int k = 0; k < 48; ++k) {
      const float stored = reinterpret_cast<const float*>(row.view.codes(0, k / 16))[k % 16];
      CHECK(stored == (k < 37 ? x[foredraft::idx(k)] : 0.0f));
    }
  });
}

TEST_CASE("a row's bytes do not depend on the rows beside it or on the instruction set") {
  const auto format = ActivationFormat::kInt8Per256;
  std::vector<std::vector<float>> rows;
  for (unsigned m = 0; m < 19; ++m) rows.push_back(random_row(512, 100 + m));
  const Kernels& narrowest = *cpu::available_tables().front();
  for_each_table([&](const Kernels& kernels) {
    AlignedBytes memory(cpu::Activations::bytes(format, 19, 512));
    const cpu::Activations together{format, 19, 512, memory.data()};
    for (int m = 18; m >= 0; --m)
      kernels.quantize_row(rows[foredraft::idx(m)].data(), together, m, 0, 512);
    for (int m = 0; m < 19; ++m) {
      const Row alone(narrowest, format, rows[foredraft::idx(m)]);
      for (int b = 0; b < 2; ++b) {
        CHECK(std::memcmp(together.codes(m, b), alone.codes(b), 256) == 0);
        CHECK(std::memcmp(together.scales(m, b), &alone.per_256(b), sizeof(cpu::ScalesPer256)) ==
              0);
      }
    }
  });
}

TEST_CASE("values that cannot be scaled") {
  for_each_table([](const Kernels& kernels) {
    std::vector<float> x(256, 0.0f);
    CHECK(Row(kernels, ActivationFormat::kInt8Per256, x).per_256(0).scale == 0.0f);
    x[17] = std::numeric_limits<float>::denorm_min();
    CHECK(Row(kernels, ActivationFormat::kInt8Per256, x).per_256(0).scale == 0.0f);
    x[17] = std::numeric_limits<float>::max();
    const Row largest(kernels, ActivationFormat::kInt8Per256, x);
    CHECK(largest.codes(0)[17] == 127);

    // What is not a number must not come out as one.
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      x[17] = bad;
      CHECK(std::isnan(Row(kernels, ActivationFormat::kInt8Per256, x).per_256(0).scale));
      CHECK(std::isnan(Row(kernels, ActivationFormat::kInt8Per32, x).per_32(0).scales[0]));
    }
  });
}
