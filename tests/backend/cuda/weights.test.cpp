#include <foredraft/backend/cuda/weights.hpp>

#include <vector>

#include <foredraft/backend/dequantized.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "backend/cuda/on_host.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;

namespace {

/// All chunks of a matrix, written out as floats.
template <WeightFormat F>
struct Unpack {
  static constexpr const char* kName = "unpack";
  static constexpr int kThreads = 32;
  struct Args {
    Weights w;
    float* out;  // [n_out, n_chunks, kChunk]
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    const int n = a.w.n_chunks();
    for (int chunk = t.thread(); chunk < n; chunk += kThreads) {
      float w[kChunk<F>];
      load_chunk<F>(t, a.w, t.block_x(), chunk, w);
      for (int i = 0; i < kChunk<F>; ++i) {
        t.store(a.out + (t.block_x() * n + chunk) * kChunk<F> + i, w[i]);
      }
    }
  }
};

}  // namespace

TEST_CASE("chunks have the values of the file, to the bit, and zeros behind them") {
  for (const TensorType type : kernels_under_test::kTypes) {
    for (const std::size_t n_in : kernels_under_test::columns_of(type)) {
      CAPTURE(fd::layout_of(type)->name, n_in);
      const auto file = kernels_under_test::random_matrix(type, 3, n_in, 7);
      const std::vector<float> exact = fd::dequantized(file.view());
      const WeightBytes packed = pack_weights(file.view());
      const on_host::Array<std::byte> chunks(packed.chunks);
      const on_host::Array<std::uint16_t> scales(packed.scales);
      const Weights w{chunks.data(), scales.data(), 3, static_cast<int>(n_in), format_for(type)};
      const auto width = fd::idx(w.n_chunks() * chunk_of(w.format));
      CHECK(packed.chunks.size() == 3 * fd::idx(w.n_chunks()) * 16);
      const on_host::Array<float> out(3 * width);
      with_format(w.format,
                  [&]<WeightFormat F>() { on_host::launch<Unpack<F>>({3}, 0, {w, out.data()}); });
      const std::vector<float> values = out.read();
      int wrong = 0;
      for (std::size_t n = 0; n < 3; ++n) {
        for (std::size_t k = 0; k < width; ++k) {
          wrong += values[n * width + k] != (k < n_in ? exact[n * n_in + k] : 0.0f);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("formats without one of their own are widened") {
  CHECK(format_for(TensorType::kQ4_0) == WeightFormat::kQ4);
  CHECK(format_for(TensorType::kQ8_0) == WeightFormat::kQ8);
  for (const TensorType type : {TensorType::kF32, TensorType::kQ4_1, TensorType::kQ5_0,
                                TensorType::kQ5_1, TensorType::kQ4_K, TensorType::kQ6_K}) {
    CHECK(format_for(type) == WeightFormat::kF32);
  }
}

TEST_CASE("a view that holds less than it says is refused") {
  const auto file = kernels_under_test::random_matrix(TensorType::kQ8_0, 2, 32, 1);
  fd::TensorView view = file.view();
  view.n_out = 3;
  CHECK(code_of([&] { (void)pack_weights(view); }) == fd::ErrorCode::kShapeMismatch);
}
