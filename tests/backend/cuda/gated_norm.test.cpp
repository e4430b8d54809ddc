#include <foredraft/backend/cuda/gated_norm.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cuda::GatedNorm;

TEST_CASE("each part of a row has its norm, and a gate before it or behind it") {
  for (const int part : {1, 24, 200}) {
    for (const bool gate_first : {false, true}) {
      CAPTURE(part, gate_first);
      constexpr std::size_t kRows = 3, kParts = 2;
      const auto n = fd::idx(part);
      const std::size_t width = kParts * n, stride = width + 5;
      std::vector<float> y = mini::normals(kRows * width, 1);
      const std::vector<float> gate = mini::normals(kRows * stride, 2);
      const std::vector<float> weight = mini::normals(gate_first ? width : n, 3);
      y[width] = NAN;  // of the second row, in its first part
      const on_device::Array<float> values(y), gates(gate), weights(weight);
      const GatedNorm::Args args{values.data(),          static_cast<int>(width),  part,
                                 gates.data(),           static_cast<int>(stride), gate_first,
                                 {weights.data(), 0.01f}};
      on_device::launch<GatedNorm>(GatedNorm::grid(args, kRows), 0, args);
      const std::vector<float> found = values.read();
      double worst = 0;
      for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t p = 0; p < kParts; ++p) {
          const auto gate_of = [&](std::size_t i) {
            const auto x = static_cast<double>(gate[row * stride + p * n + i]);
            return x / (1 + std::exp(-x));
          };
          const auto value = [&](std::size_t i) {
            const auto x = static_cast<double>(y[row * width + p * n + i]);
            return gate_first ? x * gate_of(i) : x;
          };
          double squares = 0;
          for (std::size_t i = 0; i < n; ++i) squares += value(i) * value(i);
          const double scale = 1 / std::sqrt(squares / part + 0.01);
          for (std::size_t i = 0; i < n; ++i) {
            const float ours = found[row * width + p * n + i];
            if (row == 1 && p == 0) {
              CHECK(std::isnan(ours));
              continue;
            }
            double exact =
                value(i) * scale * static_cast<double>(weight[gate_first ? p * n + i : i]);
            if (!gate_first) exact *= gate_of(i);
            worst = std::fmax(worst, std::abs(static_cast<double>(ours) - exact));
          }
        }
      }
      CHECK(worst < 1e-5);
    }
  }
}
