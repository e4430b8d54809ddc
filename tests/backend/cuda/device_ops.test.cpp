#include <foredraft/backend/cuda/device_ops.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <foredraft/core/half.hpp>

#include "backend/cuda/on_device.hpp"
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
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const float value = t.load(a.in + t.thread());
    t.store(a.sum + t.thread(), t.warp_sum(value));
    t.store(a.twice + t.thread(), t.warp_sum(2.0 * static_cast<double>(value)));
    t.store(a.negative + t.thread(), t.warp_sum(-value));
    t.store(a.greatest + t.thread(), t.warp_max(value));
  }
};

struct Log1p {
  static constexpr const char* kName = "log1p";
  static constexpr int kThreads = 32;
  struct Args {
    float* x;  // read and written [kThreads]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    t.store(a.x + t.thread(), t.log1p(t.load(a.x + t.thread())));
  }
};

/// One product of a tensor core, with its numbers where the table of the PTX ISA has them.
/// @tparam S  of the factors
template <typename S>
struct Multiply {
  static constexpr const char* kName = "multiply";
  static constexpr int kThreads = 32;
  struct Args {
    const Words* a;          // [32]
    const std::uint32_t* b;  // [32, 2]
    const float* c;          // [32, 4]
    float* d;                // written [32, 4]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& args) {
    const int lane = lane_of(t);
    float sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = t.load(args.c + lane * 4 + i);
    const Words a = t.load(args.a + lane);
    const std::uint32_t b0 = t.load(args.b + lane * 2), b1 = t.load(args.b + lane * 2 + 1);
    if constexpr (std::is_same_v<S, fd::f16>) {
      t.mma_half(sum, a, b0, b1);
    } else {
      t.mma(sum, a, b0, b1);
    }
    for (int i = 0; i < 4; ++i) t.store(args.d + lane * 4 + i, sum[i]);
  }
};

template <typename S>
std::vector<float> multiplied(const std::vector<Words>& a, const std::vector<std::uint32_t>& b,
                              const std::vector<float>& c) {
  const on_device::Array<Words> in_a(a);
  const on_device::Array<std::uint32_t> in_b(b);
  const on_device::Array<float> in_c(c), out(c.size());
  on_device::launch<Multiply<S>>({}, 0, {in_a.data(), in_b.data(), in_c.data(), out.data()});
  return out.read();
}

/// Numbers of few bits, so that all sums are exact.
float element(int row, int column) { return static_cast<float>((row * 7 + column * 5) % 23 - 11); }

template <typename S>
std::uint32_t pair(float low, float high) {
  return S(low).bits | static_cast<std::uint32_t>(S(high).bits) << 16;
}

struct Pack {
  static constexpr const char* kName = "pack";
  static constexpr int kThreads = 32;
  struct Args {
    const float* x;      // [2]
    std::uint32_t* out;  // written [4]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    if (t.thread() != 0) return;
    const float low = t.load(a.x), high = t.load(a.x + 1);
    t.store(a.out, t.half_pair(low, high));
    t.store(a.out + 1, t.bf16_pair(low, high));
    t.store(a.out + 2, t.halves(0x11112222u, 0x33334444u, 0));
    t.store(a.out + 3, t.halves(0x11112222u, 0x33334444u, 1));
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
  const on_device::Array<float> values(in), sum(64), negative(64), greatest(64);
  const on_device::Array<double> twice(64);
  on_device::launch<Reduce>(
      {}, 0, {values.data(), sum.data(), twice.data(), negative.data(), greatest.data()});
  for (std::size_t i = 0; i < 64; ++i) {
    const float expected = i < 32 ? 31 * 16 : 32 * 1000 - (32 + 63) * 16;
    CHECK(sum.read()[i] == expected);
    CHECK(negative.read()[i] == -expected);
    CHECK(twice.read()[i] == 2.0 * static_cast<double>(expected));
    CHECK(greatest.read()[i] == (i < 32 ? 31.0f : 968.0f));
  }
}

TEST_CASE("log(1 + x) is exact to some places even where x is next to nothing") {
  std::vector<float> x;
  for (int i = 0; i < 32; ++i) x.push_back(std::ldexp(1.5f, 4 - i));
  const on_device::Array<float> in_out(x);
  on_device::launch<Log1p>({}, 0, {in_out.data()});
  const std::vector<float> found = in_out.read();
  for (std::size_t i = 0; i < 32; ++i) {
    const double expected = std::log1p(static_cast<double>(x[i]));
    CHECK(std::abs(static_cast<double>(found[i]) - expected) < 3e-7 * expected);
  }
}

TEST_CASE("pairs have the first one low") {
  for (const auto& [low, high] : {std::pair{1.0f, -2.5f},
                                  {0x1.002p0f, 0x1.006p0f},
                                  {70000.0f, 0x1p-25f},
                                  {0x1.8p-25f, -0x1p-14f}}) {
    const on_device::Array<float> x(std::vector<float>{low, high});
    const on_device::Array<std::uint32_t> out(4);
    on_device::launch<Pack>({}, 0, {x.data(), out.data()});
    CHECK(out.read() == std::vector<std::uint32_t>{pair<fd::f16>(low, high),
                                                   pair<fd::bf16>(low, high), 0x44442222u,
                                                   0x33331111u});
  }
}

TEMPLATE_TEST_CASE("a tensor core multiplies what lies where the PTX ISA says", "", fd::bf16,
                   fd::f16) {
  std::vector<Words> a(32);
  std::vector<std::uint32_t> b(64);
  std::vector<float> c(128);
  const auto of_a = [](int row, int k) { return element(row, k); };
  const auto of_b = [](int k, int column) { return element(k + 3, column + 40); };
  for (int lane = 0; lane < 32; ++lane) {
    // mma.m16n8k16 with .bf16, from the ISA's text:
    //   A: row = groupID for ai where i = 0, 1, 4, 5, else groupID + 8;
    //      col = threadID_in_group * 2 + (i & 1), + 8 where i >= 4
    //   B: row = threadID_in_group * 2 + (i & 1), + 8 where i >= 2; col = groupID
    //   C: row = groupID for ci where i < 2, else groupID + 8; col = threadID_in_group * 2 + (i & 1)
    const int group = lane >> 2;
    const int thread = lane % 4;
    for (int i = 0; i < 8; i += 2) {
      const int row = i == 0 || i == 4 ? group : group + 8;
      const int k = thread * 2 + (i >= 4 ? 8 : 0);
      a[fd::idx(lane)].v[i / 2] = pair<TestType>(of_a(row, k), of_a(row, k + 1));
    }
    for (int i = 0; i < 4; i += 2) {
      const int k = thread * 2 + (i >= 2 ? 8 : 0);
      b[fd::idx(lane * 2 + i / 2)] = pair<TestType>(of_b(k, group), of_b(k + 1, group));
    }
    for (int i = 0; i < 4; ++i) c[fd::idx(lane * 4 + i)] = static_cast<float>(lane * 4 + i);
  }
  const std::vector<float> found = multiplied<TestType>(a, b, c);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i < 2 ? 0 : 8);
      const int column = lane % 4 * 2 + (i & 1);
      float sum = c[fd::idx(lane * 4 + i)];
      for (int k = 0; k < 16; ++k) sum += of_a(row, k) * of_b(k, column);
      CHECK(found[fd::idx(lane * 4 + i)] == sum);
    }
  }
}

TEMPLATE_TEST_CASE("a tensor core cuts off what lies far below the greatest term", "", fd::bf16,
                   fd::f16) {
  struct Case {
    float c;
    float term;  // times 2^-26
    int terms;
    float sum;
  };
  const Case cases[] = {{1.0f, 1, 16, 1.0f},                // below the 25th place
                        {1.0f, 4, 16, 1.0f + 0x1p-20f},     // above it
                        {1.0f, 3, 16, 1.0f + 0x1p-21f},     // in part
                        {-1.0f, -3, 16, -1.0f - 0x1p-21f},  // towards zero
                        {1.0f, 2, 1, 1.0f},                 // the sum, behind 24 digits
                        {0.0f, 3, 16, 3 * 0x1p-22f},  // without a greater term nothing is lost
                        {1.0f, -1, 16, 1.0f}};
  std::vector<Words> a(32);
  std::vector<std::uint32_t> b(64);
  std::vector<float> c(128);
  for (int row = 0; row < 7; ++row) {
    const Case& one = cases[row];
    for (int t = 0; t < 4; ++t) {
      const auto at = [&](int k) { return k < one.terms ? one.term * 0x1p-13f : 0.0f; };
      const auto lane = fd::idx(row * 4 + t);
      a[lane].v[0] = pair<TestType>(at(2 * t), at(2 * t + 1));
      a[lane].v[2] = pair<TestType>(at(2 * t + 8), at(2 * t + 9));
      for (std::size_t i = 0; i < 2; ++i) c[lane * 4 + i] = one.c;
    }
  }
  for (std::uint32_t& word : b) word = pair<TestType>(0x1p-13f, 0x1p-13f);
  const std::vector<float> found = multiplied<TestType>(a, b, c);
  for (int row = 0; row < 7; ++row) {
    CAPTURE(row);
    for (int i = 0; i < 8; ++i)
      CHECK(found[fd::idx(row * 16 + i / 2 * 4 + i % 2)] == cases[row].sum);
  }
}
