#include <foredraft/backend/cpu/elementwise.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/for_each_table.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cpu::KernelTable;

namespace {
std::vector<float> normals(std::size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}
}  // namespace

TEST_CASE("rope turns pairs of both layouts and leaves the rest") {
  for_each_table([](const KernelTable& kernels) {
    for (const fd::RopeKind kind : {fd::RopeKind::kAdjacent, fd::RopeKind::kHalves}) {
      for (const int n_rot : {2, 30, 32, 64, 80, 128}) {
        CAPTURE(n_rot);
        const auto half = fd::idx(n_rot / 2);
        std::vector<float> cos(half);
        std::vector<float> sin(half);
        for (std::size_t i = 0; i < half; ++i) {
          cos[i] = std::cos(static_cast<float>(i) + 0.5f);
          sin[i] = std::sin(static_cast<float>(i) + 0.5f);
        }
        const std::vector<float> before = normals(2 * half + 3, 7);
        std::vector<float> after = before;
        kernels.rope(kind, n_rot, cos.data(), sin.data(), after.data());
        for (std::size_t i = 0; i < half; ++i) {
          const std::size_t a = kind == fd::RopeKind::kAdjacent ? 2 * i : i;
          const std::size_t b = kind == fd::RopeKind::kAdjacent ? 2 * i + 1 : i + half;
          CHECK(after[a] == Approx(before[a] * cos[i] - before[b] * sin[i]).margin(1e-6));
          CHECK(after[b] == Approx(before[a] * sin[i] + before[b] * cos[i]).margin(1e-6));
        }
        for (std::size_t i = 2 * half; i < before.size(); ++i) CHECK(after[i] == before[i]);
      }
    }
  });
}

TEST_CASE("gated activations against double") {
  for_each_table([](const KernelTable& kernels) {
    for (const int n : {1, 16, 37, 256}) {
      const auto size = fd::idx(n);
      const std::vector<float> gate = normals(size, 3, 6.0f);
      const std::vector<float> up = normals(size, 4);
      std::vector<float> silu = gate;
      std::vector<float> gelu = gate;
      kernels.gated_activation(fd::Activation::kSilu, silu.data(), up.data(), n);
      std::vector<float> sigmoid = gate;
      kernels.gated_activation(fd::Activation::kGeluTanh, gelu.data(), up.data(), n);
      kernels.gated_activation(fd::Activation::kSigmoid, sigmoid.data(), up.data(), n);
      for (std::size_t i = 0; i < size; ++i) {
        const double x = gate[i];
        CHECK(silu[i] == Approx(x / (1 + std::exp(-x)) * up[i]).epsilon(1e-6).margin(1e-30));
        CHECK(sigmoid[i] == Approx(1 / (1 + std::exp(-x)) * up[i]).epsilon(1e-6).margin(1e-30));
        const double tanh = std::tanh(0.797884560802865 * (x + 0.044715 * x * x * x));
        CHECK(gelu[i] == Approx(0.5 * x * (1 + tanh) * up[i]).epsilon(1e-5).margin(1e-6));
      }
    }
  });
}

TEST_CASE("activations of great and of undefined values") {
  for_each_table([](const KernelTable& kernels) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const fd::Activation activation :
         {fd::Activation::kSilu, fd::Activation::kGeluTanh, fd::Activation::kReluSquared}) {
      std::vector<float> x{-1000.0f, 1000.0f, nan, 0.0f};
      const std::vector<float> up(4, 1.0f);
      kernels.gated_activation(activation, x.data(), up.data(), 4);
      CHECK(x[0] == 0.0f);
      CHECK(x[1] == (activation == fd::Activation::kReluSquared ? 1e6f : 1000.0f));
      CHECK(std::isnan(x[2]));
      CHECK(x[3] == 0.0f);
    }
  });
}

TEST_CASE("soft-caps against double, and of values without bounds") {
  for_each_table([](const KernelTable& kernels) {
    for (const float cap : {0.5f, 30.0f}) {
      for (const int n : {1, 16, 37, 256}) {
        const std::vector<float> before = normals(fd::idx(n), 6, 20.0f);
        std::vector<float> after = before;
        after.push_back(7.0f);  // behind the last
        kernels.soft_cap(after.data(), n, cap);
        for (std::size_t i = 0; i < before.size(); ++i) {
          const double c = cap;
          CHECK(std::abs(after[i] - c * std::tanh(before[i] / c)) < 3e-7 * c);
        }
        CHECK(after.back() == 7.0f);
      }
    }
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> x{infinity, -infinity, 1e9f, std::numeric_limits<float>::quiet_NaN(), 0.0f};
    kernels.soft_cap(x.data(), 5, 3.0f);
    CHECK((x[0] == 3.0f && x[1] == -3.0f && x[2] == 3.0f && x[4] == 0.0f));
    CHECK(std::isnan(x[3]));
  });
}

TEST_CASE("store_half rounds like float_to_half") {
  for_each_table([](const KernelTable& kernels) {
    std::vector<float> x = normals(1003, 5, 100.0f);
    x.insert(x.end(), {0.0f, -0.0f, 1e-8f, 6e-8f, 65504.0f, 65520.0f, 1e9f, -1e9f, 1.0f + 0x1p-11f,
                       std::numeric_limits<float>::infinity()});
    std::vector<std::uint16_t> halves(x.size());
    kernels.store_half(x.data(), static_cast<int>(x.size()), halves.data());
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(halves[i] == fd::float_to_half(x[i]));
  });
}

TEST_CASE("argmax") {
  for_each_table([](const KernelTable& kernels) {
    for (const int n : {1, 5, 16, 100, 256, 257, 1000}) {
      CAPTURE(n);
      std::vector<float> x = normals(fd::idx(n), static_cast<unsigned>(n));
      const int peak = n * 2 / 3;
      x[fd::idx(peak)] = 9.0f;
      fd::cpu::Best best;
      CHECK(kernels.argmax(x.data(), n, 1000, best) == 9.0f);
      CHECK(best.id == 1000 + peak);
      CHECK(best.value == 9.0f);
      CHECK_FALSE(best.nan);
      x.back() = 9.0f;  // a tie: the lower id stays, within a call and across calls
      kernels.argmax(x.data(), n, 1000 + n, best);
      CHECK(best.id == 1000 + peak);
      best.value = 10.0f;  // what is returned is the greatest of these values
      CHECK(kernels.argmax(x.data(), n, 0, best) == 9.0f);
      best = {};
      kernels.argmax(x.data(), n, 0, best);
      CHECK(best.id == peak);
      x.back() = std::numeric_limits<float>::quiet_NaN();
      kernels.argmax(x.data(), n, 0, best);
      CHECK(best.nan);
    }
    // The lowest id of the greatest value, in whatever order its ids come by.
    const std::vector<float> tied(300, 2.0f);
    fd::cpu::Best lowest;
    for (const int first : {600, 300, 900, 0, 300}) kernels.argmax(tied.data(), 300, first, lowest);
    CHECK(lowest.id == 0);
    fd::cpu::Best none;
    const std::vector<float> least(20, -std::numeric_limits<float>::infinity());
    kernels.argmax(least.data(), 20, 0, none);
    CHECK(none.id == -1);
    CHECK_FALSE(none.nan);
  });
}
