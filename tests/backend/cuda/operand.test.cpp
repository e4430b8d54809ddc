#include <foredraft/backend/cuda/operand.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// Rows as they are written, one value after the other: the sum of both numbers.
struct Prepared {
  Prepared(const std::vector<float>& in, int n_in_row, int rows, RowSource from = {})
      : n_in(n_in_row), n_rows(rows) {
    const on_device::Array<float> x(in);
    const on_device::Array<Words> parts(Operand::words_in(n_rows, n_in));
    const on_device::Array<float> sums_of(Operand::sums_in(n_rows, n_in));
    from.x = x.data();
    from.n_in = n_in;
    const PrepareRows::Args args{from, {parts.data(), sums_of.data(), n_in}};
    on_device::launch<PrepareRows>(PrepareRows::grid(args, n_rows), PrepareRows::shared(), args);
    words = parts.read();
    sums = sums_of.read();
  }

  float at(int row, int k, bool low_too = true) const {
    const int n_parts = Operand::parts_in(n_in);
    const Words& w = words[fd::idx((row / 8 * n_parts + k / 16) * 32 + row % 8 * 4 + k % 16 / 4)];
    const auto of = [&](int word) { return k % 2 == 0 ? low_of(w.v[word]) : high_of(w.v[word]); };
    return of(k % 4 / 2) + (low_too ? of(2 + k % 4 / 2) : 0.0f);
  }

  int n_in, n_rows;
  std::vector<Words> words;
  std::vector<float> sums;
};

}  // namespace

TEST_CASE("a value is the sum of two in bf16, and columns behind the last are zeros") {
  for (const int n_in : {1, 3, 37, 64, 100, 2052}) {
    constexpr int kRows = 9;
    CAPTURE(n_in);
    const std::vector<float> in = mini::normals(fd::idx(n_in * kRows), 3);
    const Prepared rows(in, n_in, kRows);
    for (int row = 0; row < kRows; ++row) {
      double sum = 0;
      for (int k = 0; k < Operand::parts_in(n_in) * 16; ++k) {
        const float exact = k < n_in ? in[fd::idx(row * n_in + k)] : 0.0f;
        REQUIRE(std::abs(rows.at(row, k) - exact) <= std::abs(exact) * 0x1p-17f);
        sum += static_cast<double>(rows.at(row, k));
        if (k % 32 == 31) {
          const float found = rows.sums[fd::idx(row * Operand::parts_in(n_in) / 2 + k / 32)];
          REQUIRE(std::abs(static_cast<double>(found) - sum) < 1e-5);
          sum = 0;
        }
      }
    }
  }
}

TEST_CASE("norm, gate and choice of rows") {
  constexpr int kIn = 70;
  const std::vector<float> in = mini::normals(3 * kIn, 1), gate = mini::normals(3 * kIn, 2),
                           weight = mini::normals(kIn, 3);
  const on_device::Array<float> by(gate), norm(weight);
  const on_device::Array<int> which(std::vector<int>{2, 0});
  const Prepared gated(in, kIn, 2,
                       {.gated = true,
                        .activation = fd::Activation::kSilu,
                        .by = by.data(),
                        .by_stride = kIn,
                        .rows = which.data()});
  const Prepared normed(in, kIn, 2, {.rows = which.data(), .norm = {norm.data(), 1e-3f}});
  for (int row = 0; row < 2; ++row) {
    const int from = row == 0 ? 2 : 0;
    const auto x = [&](int k) { return double{in[fd::idx(from * kIn + k)]}; };
    double squares = 0;
    for (int k = 0; k < kIn; ++k) squares += x(k) * x(k);
    for (int k = 0; k < kIn; ++k) {
      CHECK(double{gated.at(row, k)} ==
            Approx(x(k) / (1 + std::exp(-x(k))) * double{gate[fd::idx(from * kIn + k)]})
                .epsilon(2e-5));
      CHECK(double{normed.at(row, k)} ==
            Approx(x(k) / std::sqrt(squares / kIn + 1e-3) * double{weight[fd::idx(k)]})
                .epsilon(2e-5));
    }
  }
}

TEST_CASE("a gate without a factor, and factors in wider rows") {
  const std::vector<float> in = mini::normals(2 * 8, 1), wide = mini::normals(2 * 24, 2);
  const on_device::Array<float> by(wide);
  const Prepared alone(in, 8, 2, {.gated = true, .activation = fd::Activation::kSigmoid});
  const Prepared with(in, 8, 2,
                      {.gated = true,
                       .activation = fd::Activation::kSigmoid,
                       .by = by.data() + 8,
                       .by_stride = 24});
  for (int row = 0; row < 2; ++row) {
    for (int k = 0; k < 8; ++k) {
      const double gate = 1 / (1 + std::exp(-double{in[fd::idx(row * 8 + k)]}));
      CHECK(double{alone.at(row, k)} == Approx(gate).epsilon(2e-5));
      CHECK(double{with.at(row, k)} ==
            Approx(gate * double{wide[fd::idx(row * 24 + 8 + k)]}).epsilon(2e-5));
    }
  }
}

TEST_CASE("what is infinite or no number stays what it is, in its place") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Prepared rows({infinity, 1.5f, -infinity, NAN, 0.0f}, 5, 1);
  CHECK(rows.at(0, 0) == infinity);
  CHECK(rows.at(0, 1) == 1.5f);
  CHECK(rows.at(0, 2) == -infinity);
  CHECK(std::isnan(rows.at(0, 3)));
  CHECK(rows.at(0, 4) == 0.0f);
}
