#include <foredraft/backend/cuda/device_ops.hpp>

#include <vector>

#include "backend/cuda/on_host.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// Sums and maxima of a warp, as every lane sees them.
struct Reduce {
  static constexpr const char* kName = "reduce";
  static constexpr int kThreads = 64;
  struct Args {
    const float* in;  // [kThreads]
    float* sum;       // [kThreads]
    double* twice;    // [kThreads]
    float* negative;  // [kThreads]
    float* greatest;  // [kThreads]
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    const float value = t.load(a.in + t.thread());
    t.store(a.sum + t.thread(), t.warp_sum(value));
    t.store(a.twice + t.thread(), t.warp_sum(2.0 * static_cast<double>(value)));
    float both[2] = {value, -value};
    t.warp_sums(both);
    t.store(a.negative + t.thread(), both[0] == t.warp_sum(value) ? both[1] : kInfinity);
    t.store(a.greatest + t.thread(), t.warp_max(value));
  }
};

struct NoBarrier {  // a near miss of a thread
  int thread() { return 0; }
};
static_assert(!KernelThread<NoBarrier>);
static_assert(!KernelThread<int>);

}  // namespace

TEST_CASE("parts and pieces") {
  static_assert(parts_of(0, 4) == 0 && parts_of(1, 4) == 1 && parts_of(4, 4) == 1);
  static_assert(parts_of(5, 4) == 2);
  static_assert(shared_bytes<float>(0) == 0 && shared_bytes<float>(1) == 16);
  static_assert(shared_bytes<float>(4) == 16 && shared_bytes<double>(3) == 32);
  static_assert(sizeof(Four) == 16 && alignof(Four) == 16);
  CHECK(kInfinity > 3e38f);
}

TEST_CASE("every lane has the sum and the maximum of its warp") {
  std::vector<float> in;
  for (int i = 0; i < 64; ++i) in.push_back(static_cast<float>(i < 32 ? i : 1000 - i));
  const on_host::Array<float> values(in), sum(64), negative(64), greatest(64);
  const on_host::Array<double> twice(64);
  on_host::launch<Reduce>(
      {}, 0, {values.data(), sum.data(), twice.data(), negative.data(), greatest.data()});
  for (std::size_t i = 0; i < 64; ++i) {
    const float expected = i < 32 ? 31 * 16 : 32 * 1000 - (32 + 63) * 16;
    CHECK(sum.read()[i] == expected);
    CHECK(negative.read()[i] == -expected);
    CHECK(twice.read()[i] == 2.0 * static_cast<double>(expected));
    CHECK(greatest.read()[i] == (i < 32 ? 31.0f : 968.0f));
  }
}
