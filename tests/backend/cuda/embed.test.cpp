#include <foredraft/backend/cuda/embed.hpp>

#include <cmath>
#include <vector>

#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/dequantized.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;

TEST_CASE("rows of the table, scaled") {
  for (const auto& [type, n] : {std::pair{TensorType::kF32, 3},
                                {TensorType::kF16, 37},
                                {TensorType::kBF16, 16},
                                {TensorType::kQ4_0, 64},
                                {TensorType::kQ4_K, 256},
                                {TensorType::kQ8_0, 4128}}) {
    CAPTURE(fd::layout_of(type)->name, n);
    const auto file = mini::weights(type, 6, n, 1);
    const std::vector<float> exact = fd::dequantized(file.view());
    const DeviceMatrix<on_device::Device> table(file.view());
    const std::vector<int> picked{5, 0, 5};
    const on_device::Array<int> tokens(picked);
    const on_device::Array<float> x(3 * fd::idx(n));
    with_format(table.format(), [&]<WeightFormat F>() {
      on_device::launch<Embed<F>>(Embed<F>::grid(3), 0,
                                  {table.view(), tokens.data(), 3.0f, x.data()});
    });
    const std::vector<float> values = x.read();
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = fd::idx(picked[i / fd::idx(n)]);
      wrong += values[i] != 3.0f * exact[row * fd::idx(n) + i % fd::idx(n)];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what layers are given besides x") {
  constexpr int kLayers = 3, kInput = 37, kWidth = kLayers * kInput;
  const auto file = mini::weights(TensorType::kF16, 6, kWidth, 1);
  const std::vector<float> exact = fd::dequantized(file.view());
  const DeviceMatrix<on_device::Device> table(file.view());
  const std::vector<int> picked{5, 2};
  const std::vector<float> in = mini::normals(2 * kWidth, 2), weight = mini::normals(kInput, 3);
  const on_device::Array<int> tokens(picked);
  const on_device::Array<float> projected(in), norm(weight), out(2 * kWidth);
  using K = EmbedLayers<WeightFormat::kF16>;
  on_device::launch<K>(K::grid(2, kLayers), 0,
                       {.table = table.view(),
                        .tokens = tokens.data(),
                        .projected = projected.data(),
                        .norm = {norm.data(), 1e-3f},
                        .d_input = kInput,
                        .scale = 4.0f,
                        .inputs = out.data()});
  const std::vector<float> found = out.read();
  double worst = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const std::size_t at = row * kWidth + layer * kInput;
      double squares = 0;
      for (std::size_t i = 0; i < kInput; ++i) squares += std::pow(double{in[at + i]}, 2);
      for (std::size_t i = 0; i < kInput; ++i) {
        const double normed =
            double{in[at + i]} * double{weight[i]} / std::sqrt(squares / kInput + 1e-3);
        const double of_token = double{exact[fd::idx(picked[row]) * kWidth + layer * kInput + i]};
        worst = std::fmax(
            worst, std::abs(double{found[at + i]} - (normed + 4 * of_token) * std::sqrt(0.5)));
      }
    }
  }
  CHECK(worst < 1e-5);
}
