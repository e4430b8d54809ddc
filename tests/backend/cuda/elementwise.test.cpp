#include <foredraft/backend/cuda/elementwise.hpp>

#include <cmath>
#include <vector>

#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/dequantized.hpp>

#include "backend/cuda/on_host.hpp"
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
                                {TensorType::kQ8_0, 4128}}) {
    CAPTURE(fd::layout_of(type)->name, n);
    const auto file = mini::weights(type, 6, n, 1);
    const std::vector<float> exact = fd::dequantized(file.view());
    const DeviceMatrix<on_host::Device> table(file.view());
    const std::vector<int> picked{5, 0, 5};
    const on_host::Array<int> tokens(picked);
    const on_host::Array<float> x(3 * fd::idx(n));
    with_format(table.format(), [&]<WeightFormat F>() {
      on_host::launch<Embed<F>>(Embed<F>::grid(3), 0,
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

TEST_CASE("all activations, far from 0 too") {
  std::vector<float> gate = mini::normals(126, 1, 3.0f);
  gate.push_back(200.0f);
  gate.push_back(-200.0f);
  gate.push_back(NAN);
  const std::vector<float> up = mini::normals(gate.size(), 2);
  const int n = static_cast<int>(gate.size());
  for (const fd::Activation activation : {fd::Activation::kSilu, fd::Activation::kGeluTanh,
                                          fd::Activation::kSigmoid, fd::Activation::kReluSquared}) {
    const on_host::Array<float> in_out(gate), by(up);
    on_host::launch<Activate>(Activate::grid(n), 0, {in_out.data(), by.data(), n, activation});
    const std::vector<float> found = in_out.read();
    for (std::size_t i = 0; i + 1 < gate.size(); ++i) {
      const double x = static_cast<double>(gate[i]);
      const double expected =
          (activation == fd::Activation::kSilu      ? x / (1 + std::exp(-x))
           : activation == fd::Activation::kSigmoid ? 1 / (1 + std::exp(-x))
           : activation == fd::Activation::kReluSquared
               ? std::pow(std::fmax(x, 0.0), 2)
               : 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))) *
          static_cast<double>(up[i]);
      CHECK(std::abs(static_cast<double>(found[i]) - expected) <
            1e-6 * std::fmax(1.0, std::abs(expected)));
    }
    CHECK(std::isnan(found.back()));
  }
}
