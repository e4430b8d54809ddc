#include <foredraft/backend/cuda/norm.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cuda::AddNorm;

TEST_CASE("x = (x + norm(y) * residual) * output_scale, of each row by itself") {
  for (const int n : {1, 31, 32, 130, 513}) {
    CAPTURE(n);
    constexpr std::size_t kRows = 3;
    const auto width = fd::idx(n);
    std::vector<float> y = mini::normals(kRows * width, 1);
    const std::vector<float> x = mini::normals(kRows * width, 2);
    const std::vector<float> weight = mini::normals(width, 3);
    y[width] = NAN;  // of the second row
    const on_device::Array<float> to(x), from(y), by(weight);
    on_device::launch<AddNorm>(AddNorm::grid(kRows), AddNorm::shared(),
                               {from.data(), to.data(), n, {by.data(), 0.01f}, 0.5f, 3.0f});
    const std::vector<float> result = to.read();
    for (const std::size_t row : {0u, 2u}) {
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) {
        squares += std::pow(static_cast<double>(y[row * width + i]), 2);
      }
      const double scale = 1 / std::sqrt(squares / n + 0.01);
      double worst = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const double expected =
            3 * (static_cast<double>(x[row * width + i]) +
                 static_cast<double>(y[row * width + i] * weight[i]) * scale / 2);
        worst = std::fmax(worst, std::abs(static_cast<double>(result[row * width + i]) - expected));
      }
      CHECK(worst < 1e-5);
    }
    CHECK(std::isnan(result[width]));
  }
}
