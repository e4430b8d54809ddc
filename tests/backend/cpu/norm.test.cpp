#include <foredraft/backend/cpu/norm.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/for_each_table.hpp"
#include "support/catch.hpp"

TEST_CASE("rms_norm against double") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for_each_table([&](const foredraft::cpu::KernelTable& kernels) {
    for (const int n : {1, 15, 16, 17, 33, 64, 576, 896, 1541}) {
      CAPTURE(n);
      std::vector<float> x(foredraft::idx(n));
      std::vector<float> weight(x.size());
      std::vector<float> y(x.size());
      for (float& v : x) v = 3.0f * normal(random);
      for (float& v : weight) v = normal(random);
      kernels.rms_norm(x.data(), weight.data(), 1e-6f, n, y.data());
      double squares = 0;
      for (const float v : x) squares += static_cast<double>(v) * v;
      const double scale = 1 / std::sqrt(squares / n + 1e-6);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(y[i] == Approx(x[i] * scale * weight[i]).epsilon(2e-6));
      }
      kernels.rms_norm(x.data(), weight.data(), 1e-6f, n, x.data());  // in place
      CHECK(x == y);
    }
  });
}

TEST_CASE("rms_norm of zeros and of NaN") {
  for_each_table([](const foredraft::cpu::KernelTable& kernels) {
    const std::vector<float> weight(20, 1.0f);
    std::vector<float> x(20, 0.0f);
    kernels.rms_norm(x.data(), weight.data(), 1e-5f, 20, x.data());
    CHECK(x == std::vector<float>(20, 0.0f));
    x[19] = std::numeric_limits<float>::quiet_NaN();
    kernels.rms_norm(x.data(), weight.data(), 1e-5f, 20, x.data());
    for (const float v : x) CHECK(std::isnan(v));
  });
}

TEST_CASE("a length is set, and zeros stay") {
  for_each_table([](const foredraft::cpu::KernelTable& kernels) {
    for (const int n : {1, 8, 16, 37, 128}) {
      CAPTURE(n);
      std::vector<float> x(foredraft::idx(n) + 1, 0.0f);
      kernels.set_length(x.data(), n, 1e-6f, 3.0f);
      CHECK(x == std::vector<float>(x.size(), 0.0f));
      double squares = 1e-6;
      for (int i = 0; i < n; ++i) {
        x[foredraft::idx(i)] = static_cast<float>(i % 7) - 2.5f;
        squares += std::pow(i % 7 - 2.5, 2);
      }
      const std::vector<float> before = x;
      kernels.set_length(x.data(), n, 1e-6f, 3.0f);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(x[i] == Approx(before[i] * 3 / std::sqrt(squares)).epsilon(1e-6));
      }
    }
  });
}
