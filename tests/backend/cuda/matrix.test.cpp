#include <foredraft/backend/cuda/matrix.hpp>

#include <utility>

#include "backend/cpu/random_matrix.hpp"
#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using fd::TensorType;
using Matrix = fd::cuda::DeviceMatrix<on_device::Device>;

TEST_CASE("a matrix lies in the device's memory as long as it lives") {
  const std::size_t before = on_device::Device::current().pieces();
  {
    const auto file = kernels_under_test::random_matrix(TensorType::kQ8_0, 5, 64, 1);
    Matrix matrix(file.view());
    CHECK(on_device::Device::current().pieces() == before + 2);  // codes and scales
    const Matrix moved = std::move(matrix);
    CHECK(moved.n_out() == 5);
    CHECK(moved.n_in() == 64);
    CHECK(moved.format() == fd::cuda::WeightFormat::kQ8);
    CHECK(moved.view().n_steps() == 2);
    CHECK(moved.view().scales != nullptr);
    const auto floats = kernels_under_test::random_matrix(TensorType::kF16, 2, 9, 1);
    CHECK(Matrix(floats.view()).view().scales == nullptr);
  }
  CHECK(on_device::Device::current().pieces() == before);
  CHECK(Matrix{}.view().n_out == 0);
}

TEST_CASE("a matrix that is none is refused") {
  const auto file = kernels_under_test::random_matrix(TensorType::kF32, 2, 4, 1);
  fd::TensorView view = file.view();
  view.n_in = 5;
  CHECK(code_of([&] { (void)Matrix(view); }) == fd::ErrorCode::kShapeMismatch);
}
