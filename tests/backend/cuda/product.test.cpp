#include <foredraft/backend/cuda/product.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/dequantized.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;
using Matrix = DeviceMatrix<on_device::Device>;

namespace {

struct Case {
  TensorType type;
  int n_out;
  int n_in;
};
// Columns that are no whole step, outputs that are no whole tile, and rows of one to eight warps.
constexpr Case kCases[] = {
    {TensorType::kF32, 5, 3},      {TensorType::kF16, 17, 37},   {TensorType::kBF16, 3, 530},
    {TensorType::kQ8_0, 40, 32},   {TensorType::kQ4_0, 33, 544}, {TensorType::kF32, 3, 2050},
    {TensorType::kQ4_0, 2, 2080},  {TensorType::kQ5_0, 6, 160},  {TensorType::kQ4_1, 20, 96},
    {TensorType::kQ5_1, 6, 32},    {TensorType::kQ4_K, 35, 256}, {TensorType::kQ5_K, 7, 512},
    {TensorType::kQ6_K, 18, 1024}, {TensorType::kBF16, 270, 64}, {TensorType::kF32, 3, 4100}};

/// Rows of x as factors, and where they are.
struct PreparedRows {
  PreparedRows(const on_device::Array<float>& x, int first, int n_rows, int n_in,
               const on_device::Array<float>* norm)
      : which(numbers(first, n_rows)),
        parts(Operand::words_in(n_rows, n_in)),
        sums(Operand::sums_in(n_rows, n_in)),
        operand{parts.data(), sums.data(), n_rows, n_in} {
    const PrepareRows::Args args{{.x = x.data(),
                                  .rows = which.data(),
                                  .n_in = n_in,
                                  .norm = {norm == nullptr ? nullptr : norm->data(), 1e-3f}},
                                 {parts.data(), sums.data(), n_in}};
    on_device::launch<PrepareRows>(PrepareRows::grid(args, n_rows), PrepareRows::shared(), args);
  }
  static std::vector<int> numbers(int first, int n) {
    std::vector<int> all;
    for (int i = 0; i < n; ++i) all.push_back(first + i);
    return all;
  }

  on_device::Array<int> which;
  on_device::Array<Words> parts;
  on_device::Array<float> sums;
  Operand operand;
};

template <int kTiles, int kColumns, WeightFormat F, bool kOneRow = false>
std::vector<float> product(const Matrix& w, const on_device::Array<float>& x, int first, int n_rows,
                           const on_device::Array<float>* norm) {
  using K = Product<F, kTiles, kColumns, kOneRow>;
  const on_device::Array<float> y(fd::idx(n_rows * w.n_out()));
  const PreparedRows rows(x, first, n_rows, w.n_in(), norm);
  const typename K::Args args{.x = rows.operand, .parts = {{w.view(), nullptr, y.data()}}};
  on_device::launch<K>(K::grid(args), K::shared(), args);
  return y.read();
}

bool same_bits(const std::vector<float>& all, std::size_t from, const std::vector<float>& some) {
  return std::memcmp(all.data() + from, some.data(), some.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("products are right, and a row's bits are those of any tile") {
  for (const Case& c : kCases) {
    for (const bool normed : {false, true}) {
      CAPTURE(fd::layout_of(c.type)->name, c.n_out, c.n_in, normed);
      const int n_rows = c.n_in <= 64 ? 67 : 19;  // all columns of the widest tile, once
      const auto file = mini::weights(c.type, c.n_out, c.n_in, 3);
      const std::vector<float> exact = fd::dequantized(file.view());
      const Matrix w(file.view());
      const auto n_in = fd::idx(c.n_in);
      const auto n_out = fd::idx(c.n_out);
      const std::vector<float> in = mini::normals(fd::idx(n_rows) * n_in, 4);
      const std::vector<float> weight = mini::normals(n_in, 5);
      const on_device::Array<float> x(in), norm(weight);
      const on_device::Array<float>* const by = normed ? &norm : nullptr;
      with_format(w.format(), [&]<WeightFormat F>() {
        const std::vector<float> all = product<2, 4, F>(w, x, 0, n_rows, by);
        CHECK(same_bits(all, 0, product<1, 2, F>(w, x, 0, n_rows, by)));
        CHECK(same_bits(all, 0, product<1, 4, F>(w, x, 0, n_rows, by)));
        CHECK(same_bits(all, 0, product<1, 8, F>(w, x, 0, n_rows, by)));
        for (const std::size_t row : {0u, 5u, 18u}) {
          const int first = static_cast<int>(row);
          CHECK(same_bits(all, row * n_out, product<1, 1, F>(w, x, first, 1, by)));
          CHECK(same_bits(all, row * n_out, product<1, 1, F, true>(w, x, first, 1, by)));
        }
        CHECK(same_bits(all, 3 * n_out, product<1, 1, F>(w, x, 3, 8, by)));
        double worst = 0;
        for (std::size_t row = 0; row < fd::idx(n_rows); ++row) {
          double squares = 0;
          for (std::size_t k = 0; k < n_in; ++k) {
            squares += std::pow(static_cast<double>(in[row * n_in + k]), 2);
          }
          const double scale = normed ? 1 / std::sqrt(squares / c.n_in + 1e-3) : 1.0;
          for (std::size_t n = 0; n < n_out; ++n) {
            double sum = 0, magnitude = 0;
            for (std::size_t k = 0; k < n_in; ++k) {
              const double term = static_cast<double>(exact[n * n_in + k]) *
                                  static_cast<double>(in[row * n_in + k]) *
                                  (normed ? static_cast<double>(weight[k]) : 1.0) * scale;
              sum += term;
              magnitude += std::abs(term);
            }
            const double found = static_cast<double>(all[row * n_out + n]);
            worst = std::fmax(worst, std::abs(found - sum) / magnitude);
          }
        }
        CHECK(worst < 0x1p-17 + 1e-6);  // the rounding of x, and that of sums
      });
    }
  }
}

TEST_CASE("matrices that share an input share a launch") {
  using K = Product<WeightFormat::kF32, 1, 1>;
  const on_device::Array<float> x(mini::normals(2 * 6, 1)), bias(std::vector<float>{10, 20, 30});
  const auto first = mini::weights(TensorType::kF32, 3, 6, 1);
  const auto second = mini::weights(TensorType::kF32, 150, 6, 2);
  const Matrix a(first.view()), b(second.view());
  const on_device::Array<float> y(6);
  const on_device::Array<float> z(std::vector<float>(300, 100.0f));
  const PreparedRows rows(x, 0, 2, 6, nullptr);
  K::Args args{.x = rows.operand,
               .parts = {{a.view(), bias.data(), y.data()}, {b.view(), nullptr, z.data()}}};
  CHECK(K::grid(args).x == 3);  // one tile, and ten, eight a block
  on_device::launch<K>(K::grid(args), K::shared(), args);
  const std::vector<float> alone = product<2, 4, WeightFormat::kF32>(b, x, 0, 2, nullptr);
  CHECK(z.read() == alone);
  std::vector<float> biased = product<1, 1, WeightFormat::kF32>(a, x, 0, 2, nullptr);
  for (std::size_t i = 0; i < biased.size(); ++i)
    biased[i] += 10.0f * static_cast<float>(i % 3 + 1);
  CHECK(y.read() == biased);

  args.parts[0] = args.parts[1];
  args.parts[1] = {};
  args.add = true;
  on_device::launch<K>(K::grid(args), K::shared(), args);
  std::vector<float> twice = alone;
  for (float& value : twice) value += value;
  CHECK(z.read() == twice);
}

TEST_CASE("a NaN stays in its row") {
  std::vector<float> in = mini::normals(8 * 40, 1);
  in[3 * 40 + 7] = NAN;
  const on_device::Array<float> x(in);
  const auto file = mini::weights(TensorType::kF16, 5, 40, 1);
  const std::vector<float> y =
      product<1, 1, WeightFormat::kF16>(Matrix(file.view()), x, 0, 8, nullptr);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 5 == 3));
}

TEST_CASE("no block has more shared memory than any GPU gives it") {
  for (const auto type : kernels_under_test::kTypes) {
    with_format(format_for(type), [&]<WeightFormat F>() {
      CHECK(Product<F, 1, 1, true>::shared() <= kMostShared);
      CHECK(Product<F, 1, 1>::shared() <= kMostShared);
      CHECK(Product<F, 1, 2>::shared() <= kMostShared);
      CHECK(Product<F, 1, 4>::shared() <= kMostShared);
      CHECK(Product<F, 1, 8>::shared() <= kMostShared);
      CHECK(Product<F, 2, 4>::shared() <= kMostShared);
    });
  }
}
