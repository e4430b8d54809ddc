// Float kernels in the project's own vector operations and in xsimd's batches: equal bits, and the
// time of one over that of the other, in turns. run.py compiles it once for each version and set.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "unit.hpp"

namespace {

using Floats = std::vector<float>;
constexpr int kWidth = 1536;        // of the residual stream of a model of 1.5 billion weights
constexpr int kFeedForward = 8960;  // of its feed-forward part
constexpr int kHead = 128;
constexpr int kSamples = 201;

/// Normally distributed.
Floats values(int n, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Floats result(static_cast<std::size_t>(n));
  for (float& x : result) x = normal(random);
  return result;
}

struct Case {
  const char* name;
  int n;
  std::function<void(const FloatKernels&, Floats& out)> run;
};

std::vector<Case> cases() {
  const Floats x = values(kWidth, 1, 3.0f);
  const Floats weight = values(kWidth, 2, 1.0f);
  const Floats gate = values(kFeedForward, 3, 4.0f);
  const Floats up = values(kFeedForward, 4, 1.0f);
  const Floats angles = values(kHead / 2, 5, 2.0f);
  Floats cos(angles.size());
  Floats sin(angles.size());
  std::transform(angles.begin(), angles.end(), cos.begin(), [](float a) { return std::cos(a); });
  std::transform(angles.begin(), angles.end(), sin.begin(), [](float a) { return std::sin(a); });

  const auto activation = [=](foredraft::Activation which) {
    return [=](const FloatKernels& kernels, Floats& out) {
      std::copy(gate.begin(), gate.end(), out.begin());
      kernels.gated_activation(which, out.data(), up.data(), kFeedForward);
    };
  };
  return {{"RMS norm", kWidth,
           [=](const FloatKernels& kernels, Floats& out) {
             kernels.rms_norm(x.data(), weight.data(), 1e-6f, kWidth, out.data());
           }},
          {"rotation", kHead,
           [=](const FloatKernels& kernels, Floats& out) {
             std::copy_n(x.begin(), kHead, out.begin());
             kernels.rope(foredraft::RopeKind::kHalves, kHead, cos.data(), sin.data(), out.data());
           }},
          {"SiLU", kFeedForward, activation(foredraft::Activation::kSilu)},
          {"GELU", kFeedForward, activation(foredraft::Activation::kGeluTanh)},
          {"soft-cap", kFeedForward, [=](const FloatKernels& kernels, Floats& out) {
             std::copy(gate.begin(), gate.end(), out.begin());
             kernels.soft_cap(out.data(), kFeedForward, 30.0f);
           }}};
}

double microseconds(const Case& c, const FloatKernels& kernels, Floats& out) {
  const int repeats = 200000 / c.n + 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) c.run(kernels, out);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / repeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kSamples / 2, values.end());
  return values[kSamples / 2];
}

}  // namespace

int main() {
  const FloatKernels own = kernels_by_hand();
  const FloatKernels theirs = kernels_of_xsimd();
  std::printf("{\"set\": \"%s\", \"cases\": {", own.name);
  const char* comma = "";
  for (const Case& c : cases()) {
    Floats a(kFeedForward);
    Floats b(kFeedForward);
    c.run(own, a);
    c.run(theirs, b);
    const bool same = std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    std::vector<double> ratios;
    std::vector<double> times;
    for (int i = 0; i < kSamples; ++i) {
      times.push_back(microseconds(c, own, a));
      ratios.push_back(microseconds(c, theirs, b) / times.back());
    }
    std::printf("%s\"%s\": {\"same_bits\": %s, \"own_us\": %.4f, \"ratio\": %.4f}", comma, c.name,
                same ? "true" : "false", median(times), median(ratios));
    comma = ", ";
  }
  std::printf("}}\n");
}
