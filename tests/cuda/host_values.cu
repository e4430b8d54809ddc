// A GPU computes what the host computes that executes the same kernels.

#include <foredraft/backend/cuda/cuda.cuh>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/layer_values.hpp"
#include "support/catch.hpp"
#include "support/skip.hpp"

namespace fd = foredraft;

TEST_CASE("values of the host's execution") {
  const char* const path = std::getenv("FOREDRAFT_HOST_VALUES");
  if (path == nullptr) return skip("FOREDRAFT_HOST_VALUES names no file of write_host_values");
  const auto ours = LayerValues::of<fd::Cuda, fd::CudaRows<float>>();
  std::ifstream in(path);
  int different = 0;
  std::string word;  // strtof: a stream reads no subnormal numbers
  for (const float value : ours.exact) {
    in >> word;
    different += value != std::strtof(word.c_str(), nullptr);
  }
  CHECK(different == 0);
  // What is rounded differs by some units of the last place of the greatest value near it. Every output has a row of
  // its own here, so the whole is one scale: values are of the order of 1 to 100.
  double worst = 0, greatest = 0;
  for (const float value : ours.rounded) {
    in >> word;
    const double theirs = std::strtod(word.c_str(), nullptr);
    worst = std::fmax(worst, std::abs(static_cast<double>(value) - theirs));
    greatest = std::fmax(greatest, std::abs(theirs));
  }
  CHECK(worst < 1e-5 * greatest);
  for (const int token : ours.argmax) {
    int theirs = -2;
    in >> theirs;
    CHECK(token == theirs);
  }
  CHECK(in.good());
}
