#include <foredraft/backend/cuda/activation.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr int kThreads = 32;
  struct Args {
    float* x;  // read and written [n]
    int n;
    fd::Activation activation;
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    for (int i = t.thread(); i < a.n; i += kThreads) {
      t.store(a.x + i, activated(t, a.activation, t.load(a.x + i)));
    }
  }
};

}  // namespace

TEST_CASE("all activations, far from 0 too") {
  std::vector<float> gate = mini::normals(126, 1, 3.0f);
  gate.push_back(200.0f);
  gate.push_back(-200.0f);
  gate.push_back(NAN);
  const int n = static_cast<int>(gate.size());
  for (const fd::Activation activation : {fd::Activation::kSilu, fd::Activation::kGeluTanh,
                                          fd::Activation::kSigmoid, fd::Activation::kReluSquared}) {
    const on_device::Array<float> in_out(gate);
    on_device::launch<Activate>({}, 0, {in_out.data(), n, activation});
    const std::vector<float> found = in_out.read();
    for (std::size_t i = 0; i + 1 < gate.size(); ++i) {
      const double x = static_cast<double>(gate[i]);
      const double expected =
          (activation == fd::Activation::kSilu      ? x / (1 + std::exp(-x))
           : activation == fd::Activation::kSigmoid ? 1 / (1 + std::exp(-x))
           : activation == fd::Activation::kReluSquared
               ? std::pow(std::fmax(x, 0.0), 2)
               : 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
      CHECK(std::abs(static_cast<double>(found[i]) - expected) <
            1e-6 * std::fmax(1.0, std::abs(expected)));
    }
    CHECK(std::isnan(found.back()));
  }
}

namespace {

struct Softplus {
  static constexpr const char* kName = "softplus";
  static constexpr int kThreads = 32;
  struct Args {
    float* x;  // read and written [kThreads]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    t.store(a.x + t.thread(), softplus(t, t.load(a.x + t.thread())));
  }
};

}  // namespace

TEST_CASE("log(1 + exp(x)), where exp has no room and where it is next to nothing") {
  std::vector<float> x = mini::normals(28, 2, 8.0f);
  x.insert(x.end(), {200.0f, 19.5f, -30.0f, NAN});
  const on_device::Array<float> in_out(x);
  on_device::launch<Softplus>({}, 0, {in_out.data()});
  const std::vector<float> found = in_out.read();
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]);
    const double expected = value > 40 ? value : std::log1p(std::exp(value));
    CHECK(std::abs(static_cast<double>(found[i]) - expected) < 1e-6 * expected);
  }
  CHECK(std::isnan(found.back()));
}
