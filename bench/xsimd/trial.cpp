// Float kernels in the project's own vector operations and in xsimd's batches: equal bits, and the
// time of one over that of the other, in turns. run.py compiles it once for each version and set. With
// an argument it takes no times: an emulator's say nothing.
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
constexpr int kPositions = 4096;   // of a context
constexpr int kVocabulary = 8192;  // the part of one that stays in a cache
constexpr int kSamples = 201;

/// Normally distributed.
Floats values(int n, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Floats result(static_cast<std::size_t>(n));
  for (float& x : result) x = normal(random);
  return result;
}

struct Out {
  Floats floats = Floats(kFeedForward);
  std::vector<double> doubles = std::vector<double>(kVocabulary);

  bool operator==(const Out& other) const {
    return std::memcmp(floats.data(), other.floats.data(), floats.size() * sizeof(float)) == 0 &&
           std::memcmp(doubles.data(), other.doubles.data(), doubles.size() * sizeof(double)) == 0;
  }
};

struct Vocabulary {
  FloatKernels kernels;
  Exponentiate* exponentiate;
};

struct Case {
  const char* name;
  int n;
  std::function<void(const Vocabulary&, Out& out)> run;
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

  const double greatest = *std::max_element(gate.begin(), gate.end());
  const auto activation = [=](foredraft::Activation which) {
    return [=](const Vocabulary& v, Out& out) {
      std::copy(gate.begin(), gate.end(), out.floats.begin());
      v.kernels.gated_activation(which, out.floats.data(), up.data(), kFeedForward);
    };
  };
  return {{"RMS norm", kWidth,
           [=](const Vocabulary& v, Out& out) {
             v.kernels.rms_norm(x.data(), weight.data(), 1e-6f, kWidth, out.floats.data());
           }},
          {"rotation", kHead,
           [=](const Vocabulary& v, Out& out) {
             std::copy_n(x.begin(), kHead, out.floats.begin());
             v.kernels.rope(foredraft::RopeKind::kHalves, kHead, cos.data(), sin.data(),
                            out.floats.data());
           }},
          {"SiLU", kFeedForward, activation(foredraft::Activation::kSilu)},
          {"GELU", kFeedForward, activation(foredraft::Activation::kGeluTanh)},
          {"soft-cap", kFeedForward,
           [=](const Vocabulary& v, Out& out) {
             std::copy(gate.begin(), gate.end(), out.floats.begin());
             v.kernels.soft_cap(out.floats.data(), kFeedForward, 30.0f);
           }},
          {"softmax", kPositions,
           [=](const Vocabulary& v, Out& out) {
             std::copy_n(gate.begin(), kPositions, out.floats.begin());
             out.floats[kPositions] = v.kernels.softmax(out.floats.data(), kPositions);
           }},
          {"sampling", kVocabulary, [=](const Vocabulary& v, Out& out) {
             v.exponentiate(gate.data(), kVocabulary, greatest, 0.8, out.doubles.data());
           }}};
}

double microseconds(const Case& c, const Vocabulary& v, Out& out) {
  const int repeats = 200000 / c.n + 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) c.run(v, out);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / repeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kSamples / 2, values.end());
  return values[kSamples / 2];
}

}  // namespace

int main(int argc, char**) {
  const bool timed = argc == 1;
  const Vocabulary own{kernels_by_hand(), &exponentiate_by_hand};
  const Vocabulary theirs{kernels_of_xsimd(), &exponentiate_of_xsimd};
  std::printf("{\"set\": \"%s\", \"cases\": {", own.kernels.name);
  const char* comma = "";
  for (const Case& c : cases()) {
    Out a;
    Out b;
    c.run(own, a);
    c.run(theirs, b);
    std::printf("%s\"%s\": {\"same_bits\": %s", comma, c.name, a == b ? "true" : "false");
    comma = ", ";
    std::vector<double> ratios;
    std::vector<double> times;
    for (int i = 0; timed && i < kSamples; ++i) {
      times.push_back(microseconds(c, own, a));
      ratios.push_back(microseconds(c, theirs, b) / times.back());
    }
    if (timed) std::printf(", \"own_us\": %.4f, \"ratio\": %.4f", median(times), median(ratios));
    std::printf("}");
  }
  std::printf("}}\n");
}
