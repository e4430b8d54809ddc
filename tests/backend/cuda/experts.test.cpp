#include <foredraft/backend/cuda/experts.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::TensorType;
using Backend = fd::CudaBackend<on_device::Device>;

namespace {

constexpr int kModel = 96, kExpert = 32, kExperts = 7, kUsed = 3, kShared = 64;

/// The same mixture on any backend.
template <typename B>
class Mixture {
  using Worker = typename B::Worker;
  using Vector = typename B::template Buffer<float>;

 public:
  Mixture(B& backend, TensorType type) : backend_(backend) {
    const auto matrix = [&](TensorType of, int n_out, int n_in, unsigned seed) {
      return backend.pack(mini::weights(of, n_out, n_in, seed).view());
    };
    router_ = matrix(TensorType::kF32, kExperts, kModel, 31);
    gate_ = matrix(type, kExperts * kExpert, kModel, 32);
    up_ = matrix(TensorType::kQ8_0, kExperts * kExpert, kModel, 33);
    down_ = matrix(TensorType::kQ4_0, kExperts * kModel, kExpert, 34);
    score_ = matrix(TensorType::kF32, 1, kModel, 37);
    shared_gate_ = matrix(TensorType::kF16, kShared, kModel, 38);
    shared_up_ = matrix(type, kShared, kModel, 39);
    shared_down_ = matrix(TensorType::kQ8_0, kModel, kShared, 40);
    (void)norm_.write(mini::normals(kModel, 36));
  }

  /// x plus what the mixture says to it.
  std::vector<float> operator()(const std::vector<float>& x, bool with_shared) {
    const int n_rows = static_cast<int>(x.size()) / kModel;
    std::vector<float> out(x.size());
    std::vector<fd::Tap> taps;
    for (int i = 0; i < n_rows; ++i) taps.push_back({i, out.data() + i * kModel});
    (void)x_.write(x);
    const fd::Out<Worker> in_out = x_.reserve(0);
    const fd::PassShape shape{.n_rows = n_rows,
                              .d_model = kModel,
                              .d_ff = kShared,
                              .d_head = 16,
                              .n_experts = kExperts,
                              .n_used = kUsed,
                              .d_expert = kExpert,
                              .d_shared = kShared};
    backend_.run(shape, [&](Worker& worker) noexcept {
      fd::MixtureArgs<Worker> args{.x = in_out,
                                   .n_rows = n_rows,
                                   .norm = {norm_.reserve(0), 1e-5f},
                                   .activation = fd::Activation::kSilu,
                                   .router = &router_,
                                   .gate = &gate_,
                                   .up = &up_,
                                   .down = &down_,
                                   .n_experts = kExperts,
                                   .n_used = kUsed,
                                   .shared = {}};
      if (with_shared) args.shared = {&score_, &shared_gate_, &shared_up_, &shared_down_};
      worker.mixture(args);
      worker.tap(fd::TapArgs<Worker>{.x = in_out, .d_model = kModel, .taps = taps});
    });
    return out;
  }

 private:
  B& backend_;
  typename B::Matrix router_, gate_, up_, down_, score_, shared_gate_, shared_up_, shared_down_;
  Vector norm_, x_;
};

}  // namespace

TEST_CASE("a mixture is that of the reference, and each of its rows that of the row alone") {
  Backend cuda;
  fd::Reference reference;
  for (const TensorType type : {TensorType::kBF16, TensorType::kQ4_0, TensorType::kQ5_1}) {
    Mixture ours(cuda, type);
    Mixture exact(reference, type);
    for (const bool shared : {false, true}) {
      for (const int n_rows : {1, 2, 9, 40}) {
        CAPTURE(fd::layout_of(type)->name, shared, n_rows);
        const std::vector<float> x = mini::normals(fd::idx(n_rows * kModel), 35);
        const std::vector<float> found = ours(x, shared);
        const std::vector<float> expected = exact(x, shared);
        double worst = 0, greatest = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          worst = std::fmax(worst, std::abs(static_cast<double>(found[i] - expected[i])));
          greatest = std::fmax(greatest, std::abs(static_cast<double>(expected[i])));
        }
        CHECK(worst < 1e-5 * greatest);
        for (int row = 0; row < n_rows; row += 4) {
          const auto at = x.begin() + row * kModel;
          const std::vector<float> one = ours({at, at + kModel}, shared);
          CHECK(std::memcmp(found.data() + row * kModel, one.data(), one.size() * sizeof(float)) ==
                0);
        }
      }
    }
  }
}
