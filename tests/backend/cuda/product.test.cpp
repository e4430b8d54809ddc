#include <foredraft/backend/cuda/product.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/dequantized.hpp>

#include "backend/cuda/on_host.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;
using Matrix = DeviceMatrix<on_host::Device>;

namespace {

struct Case {
  TensorType type;
  int n_out;
  int n_in;
};
// Rows that one, two and four warps share; columns that are no whole chunk, and fewer than lanes.
constexpr Case kCases[] = {{TensorType::kF32, 5, 3},    {TensorType::kF16, 9, 37},
                           {TensorType::kBF16, 3, 530}, {TensorType::kQ8_0, 7, 32},
                           {TensorType::kQ4_0, 6, 544}, {TensorType::kF32, 3, 2050},
                           {TensorType::kQ4_0, 2, 2080}};

template <int kTile, WeightFormat F>
std::vector<float> product(const Matrix& w, const on_host::Array<float>& x, int first, int n_rows,
                           const on_host::Array<float>* norm) {
  using K = Product<F, kTile>;
  std::vector<int> rows;
  for (int i = 0; i < n_rows; ++i) rows.push_back(first + i);
  const on_host::Array<int> which(rows);
  const on_host::Array<float> y(fd::idx(n_rows * w.n_out()));
  typename K::Args args{.x = x.data(),
                        .rows = which.data(),
                        .n_rows = n_rows,
                        .n_in = w.n_in(),
                        .norm = {norm == nullptr ? nullptr : norm->data(), 1e-3f},
                        .parts = {{w.view(), nullptr, y.data()}},
                        .split = split_of(w.n_in()),
                        .add = false};
  on_host::launch<K>(K::grid(args), K::shared(), args);
  return y.read();
}

}  // namespace

TEST_CASE("products are right, and a row's bits are those of any tile") {
  static_assert(split_of(511) == 1 && split_of(512) == 2 && split_of(2048) == 4);
  for (const Case& c : kCases) {
    for (const bool normed : {false, true}) {
      CAPTURE(fd::layout_of(c.type)->name, c.n_out, c.n_in, normed);
      constexpr int kRows = 9;
      const auto file = mini::weights(c.type, c.n_out, c.n_in, 3);
      const std::vector<float> exact = fd::dequantized(file.view());
      const Matrix w(file.view());
      const auto n_in = fd::idx(c.n_in);
      const std::vector<float> in = mini::normals(kRows * n_in, 4);
      const std::vector<float> weight = mini::normals(n_in, 5);
      const on_host::Array<float> x(in), norm(weight);
      const on_host::Array<float>* const by = normed ? &norm : nullptr;
      with_format(w.format(), [&]<WeightFormat F>() {
        const std::vector<float> all = product<8, F>(w, x, 0, kRows, by);
        const std::vector<float> fours = product<4, F>(w, x, 0, kRows, by);
        CHECK(std::memcmp(all.data(), fours.data(), all.size() * sizeof(float)) == 0);
        for (int row = 0; row < kRows; row += 4) {
          const std::vector<float> one = product<1, F>(w, x, row, 1, by);
          CHECK(std::memcmp(all.data() + row * c.n_out, one.data(), one.size() * sizeof(float)) ==
                0);
        }
        double worst = 0;
        for (std::size_t row = 0; row < kRows; ++row) {
          double squares = 0;
          for (std::size_t k = 0; k < n_in; ++k) {
            squares += std::pow(static_cast<double>(in[row * n_in + k]), 2);
          }
          const double scale = normed ? 1 / std::sqrt(squares / c.n_in + 1e-3) : 1.0;
          for (std::size_t n = 0; n < fd::idx(c.n_out); ++n) {
            double sum = 0;
            for (std::size_t k = 0; k < n_in; ++k) {
              sum += static_cast<double>(exact[n * n_in + k]) *
                     static_cast<double>(in[row * n_in + k]) *
                     (normed ? static_cast<double>(weight[k]) : 1.0);
            }
            const double found = static_cast<double>(all[row * fd::idx(c.n_out) + n]);
            worst = std::fmax(worst, std::abs(found - sum * scale));
          }
        }
        CHECK(worst < 1e-5);
      });
    }
  }
}

TEST_CASE("matrices that share an input share a launch") {
  using K = Product<WeightFormat::kF32, 4>;
  const on_host::Array<float> x(mini::normals(2 * 6, 1)), bias(std::vector<float>{10, 20, 30});
  const auto first = mini::weights(TensorType::kF32, 3, 6, 1);
  const auto second = mini::weights(TensorType::kF32, 6, 6, 2);
  const Matrix a(first.view()), b(second.view());
  const on_host::Array<float> y(6);
  const on_host::Array<float> z(std::vector<float>(12, 100.0f));
  K::Args args{.x = x.data(),
               .n_rows = 2,
               .n_in = 6,
               .parts = {{a.view(), bias.data(), y.data()}, {b.view(), nullptr, z.data()}},
               .split = 1,
               .add = false};
  CHECK(K::grid(args).x == 3);  // nine outputs, four a block
  on_host::launch<K>(K::grid(args), K::shared(), args);
  const std::vector<float> alone = product<4, WeightFormat::kF32>(b, x, 0, 2, nullptr);
  CHECK(z.read() == alone);
  std::vector<float> biased = product<4, WeightFormat::kF32>(a, x, 0, 2, nullptr);
  for (std::size_t i = 0; i < biased.size(); ++i)
    biased[i] += 10.0f * static_cast<float>(i % 3 + 1);
  CHECK(y.read() == biased);

  args.parts[0] = args.parts[1];
  args.parts[1] = {};
  args.add = true;
  on_host::launch<K>(K::grid(args), K::shared(), args);
  std::vector<float> twice = alone;
  for (float& value : twice) value += value;
  CHECK(z.read() == twice);
}

TEST_CASE("a NaN stays in its row") {
  std::vector<float> in = mini::normals(8 * 40, 1);
  in[3 * 40 + 7] = NAN;
  const on_host::Array<float> x(in);
  const auto file = mini::weights(TensorType::kF16, 5, 40, 1);
  const std::vector<float> y =
      product<8, WeightFormat::kF16>(Matrix(file.view()), x, 0, 8, nullptr);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 5 == 3));
}
