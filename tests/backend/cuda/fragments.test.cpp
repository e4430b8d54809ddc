#include <foredraft/backend/cuda/fragments.hpp>

#include <vector>

#include <foredraft/backend/cuda/matrix.hpp>
#include <foredraft/backend/dequantized.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;

namespace {

/// A matrix, weight after weight.
template <WeightFormat F>
struct ReadAll {
  static constexpr const char* kName = "read_all";
  static constexpr int kThreads = 32;
  struct Args {
    Weights w;
    float* out;  // [n_out, n_in]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    for (int k = t.thread(); k < a.w.n_in; k += kThreads) {
      t.store(a.out + t.block_x() * a.w.n_in + k, weight_at<F>(t, a.w, t.block_x(), k));
    }
  }
};

/// Likewise, but by what mma() is given: lane 4 g + t says where its numbers belong.
template <WeightFormat F>
struct ReadPlanes {
  static constexpr const char* kName = "read_planes";
  static constexpr int kThreads = 32;
  struct Args {
    Weights w;
    float* out;  // [n_tiles * 16, n_steps * columns]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    constexpr FormatShape kOf = kShape<F>;
    const int columns = a.w.n_steps() * kOf.columns;
    const int tile = t.block_x();
    for (int step = 0; step < a.w.n_steps(); ++step) {
      const auto loaded =
          load_step<F>(t, a.w.steps + (tile * a.w.n_steps() + step) * kOf.loads * kWarp);
      for (int part = 0; part < kOf.columns / 16; ++part) {
        const Planes<F> planes = planes_of<F>(t, loaded, part);
        for (int i = 0; i < 8; ++i) {
          const int row = t.thread() / 4 + i / 2 % 2 * 8;
          const int column =
              step * kOf.columns + part * 16 + t.thread() % 4 * 4 + i / 4 * 2 + i % 2;
          float sum = 0;
          for (const Words& plane : planes.of) {
            sum += i % 2 == 0 ? low_of(plane.v[i / 2]) : high_of(plane.v[i / 2]);
          }
          if constexpr (kOf.group != 0) {
            const GroupScale of = scale_of<F>(
                t, t.load(scale_entry<F>(a.w, tile, column / kOf.group, t.thread() / 4)));
            sum = of.scale[i / 2 % 2] * sum + of.bias[i / 2 % 2];
          }
          t.store(a.out + (tile * 16 + row) * columns + column, sum);
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("weights have the values of the file, to the bit, one by one and as factors") {
  for (const TensorType type : kernels_under_test::kTypes) {
    for (const std::size_t n_in : kernels_under_test::columns_of(type)) {
      CAPTURE(fd::layout_of(type)->name, n_in);
      constexpr std::size_t kOut = 19;
      const auto file = kernels_under_test::random_matrix(type, kOut, n_in, 7);
      const std::vector<float> exact = fd::dequantized(file.view());
      const DeviceMatrix<on_device::Device> matrix(file.view());
      const Weights w = matrix.view();
      const auto columns = fd::idx(w.n_steps() * shape_of(w.format).columns);
      const on_device::Array<float> one_by_one(kOut * n_in), factors(32 * columns);
      with_format(w.format, [&]<WeightFormat F>() {
        on_device::launch<ReadAll<F>>({kOut}, 0, {w, one_by_one.data()});
        on_device::launch<ReadPlanes<F>>({2}, 0, {w, factors.data()});
      });
      CHECK(one_by_one.read() == exact);
      const std::vector<float> all = factors.read();
      int wrong = 0;
      for (std::size_t row = 0; row < 32; ++row) {
        for (std::size_t k = 0; k < columns; ++k) {
          const bool inside = row < kOut && k < n_in;
          wrong += all[row * columns + k] != (inside ? exact[row * n_in + k] : 0.0f);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("halves of any size are a sum of two numbers in bf16") {
  kernels_under_test::FileMatrix file{TensorType::kF16, 1, 6, {}};
  for (const unsigned bits : {0x0001u, 0x03ffu, 0x7bffu, 0xfbffu, 0x8000u, 0x3c01u}) {
    file.bytes.push_back(static_cast<std::byte>(bits & 0xffu));
    file.bytes.push_back(static_cast<std::byte>(bits >> 8));
  }
  const DeviceMatrix<on_device::Device> matrix(file.view());
  const on_device::Array<float> out(16 * 16);
  on_device::launch<ReadPlanes<WeightFormat::kF16>>({1}, 0, {matrix.view(), out.data()});
  const std::vector<float> exact = fd::dequantized(file.view());
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(out.read()[i] == exact[i]);
}
