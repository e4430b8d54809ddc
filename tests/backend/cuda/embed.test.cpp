#include <foredraft/backend/cuda/embed.hpp>

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
