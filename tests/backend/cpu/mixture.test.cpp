#include <foredraft/backend/cpu/mixture.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/cpu/worker_cases.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using fd::TensorType;
using worker_cases::for_each_case;
using worker_cases::Pair;

namespace {

constexpr int kModel = 256;
constexpr int kExpert = 272;  // more than two tiles, and no whole number of blocks
constexpr int kExperts = 7;
constexpr int kUsed = 3;
constexpr int kShared = 160;

/// A mixture for both backends.
struct Mixture {
  Pair router, gate, up, down;
  Pair score, shared_gate, shared_up, shared_down;  // of an expert that all rows take
  std::vector<float> norm = mini::normals(kModel, 36);

  Mixture(fd::Cpu& cpu, TensorType type)
      : router(cpu, TensorType::kF32, kExperts, kModel, 31),
        gate(cpu, type, kExperts * kExpert, kModel, 32),
        up(cpu, TensorType::kQ8_0, kExperts * kExpert, kModel, 33),
        down(cpu, TensorType::kF16, kExperts * kModel, kExpert, 34),
        score(cpu, TensorType::kF32, 1, kModel, 37),
        shared_gate(cpu, TensorType::kF16, kShared, kModel, 38),
        shared_up(cpu, type, kShared, kModel, 39),
        shared_down(cpu, TensorType::kQ8_0, kModel, kShared, 40) {}

  /// @param of  which of a pair's matrices the backend reads
  template <typename B>
  void run(B& backend, typename B::Matrix Pair::* of, std::vector<float>& sum) const {
    const int rows = static_cast<int>(sum.size()) / kModel;
    const fd::PassShape shape{.n_rows = rows,
                              .d_model = kModel,
                              .d_ff = kShared,
                              .d_head = 16,
                              .n_experts = kExperts,
                              .n_used = kUsed,
                              .d_expert = kExpert,
                              .d_shared = kShared};
    backend.run(shape, [&]<typename W>(W& worker) noexcept {
      worker.mixture(fd::MixtureArgs<W>{
          sum.data(),
          rows,
          {norm.data(), 1e-5f},
          fd::Activation::kSilu,
          &(router.*of),
          &(gate.*of),
          &(up.*of),
          &(down.*of),
          kExperts,
          kUsed,
          {&(score.*of), &(shared_gate.*of), &(shared_up.*of), &(shared_down.*of)}});
    });
  }
};

}  // namespace

TEST_CASE("a row of a mixture with a shared expert is the row alone, to the bit") {
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    const Mixture mixture(cpu, type);
    const auto n = fd::idx(n_rows);
    const std::vector<float> x = mini::normals(n * kModel, 35);
    std::vector<float> sum = x;
    mixture.run(cpu, &Pair::packed, sum);
    int wrong = 0;
    for (std::size_t row = 0; row < n; ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kModel);
      std::vector<float> alone(begin, begin + kModel);
      mixture.run(cpu, &Pair::packed, alone);
      wrong += !std::equal(alone.begin(), alone.end(), &sum[row * kModel]);
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("mixture with a shared expert") {
  for_each_case([](fd::Cpu& cpu, TensorType type, int n_rows) {
    const bool floats = fd::quant_geometry(type).elements == 0;
    const Mixture mixture(cpu, type);
    const std::vector<float> x = mini::normals(fd::idx(n_rows) * kModel, 35);
    std::vector<float> sum = x;
    mixture.run(cpu, &Pair::packed, sum);
    std::vector<float> expected = x;
    fd::Reference reference;
    mixture.run(reference, &Pair::exact, expected);
    // What is added is about as large as the rows. 8 bits on the way are wrong by a hundredth.
    double error = 0;
    double added = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      error += std::pow(double{sum[i]} - double{expected[i]}, 2);
      added += std::pow(double{expected[i]} - double{x[i]}, 2);
    }
    CHECK(added > 0.01 * static_cast<double>(x.size()));
    CHECK(std::sqrt(error / added) < (floats ? 0.02 : 0.04));
    CHECK(error > 0);
  });
}
