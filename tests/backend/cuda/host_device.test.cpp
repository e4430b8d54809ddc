#include <foredraft/backend/cuda/host_device.hpp>

#include <stdexcept>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using fd::cuda::HostDevice;

namespace {

struct Double {
  static constexpr const char* kName = "double";
  static constexpr int kThreads = 32;
  struct Args {
    int* x;
    int n;
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    const int i = t.block_x() * kThreads + t.thread();
    if (i < a.n) t.store(a.x + i, 2 * t.load(a.x + i));
  }
};

}  // namespace

TEST_CASE("kernels and copies follow each other") {
  const on_device::Array<int> x(std::vector<int>(40, 3));
  on_device::launch<Double>({2}, 0, {x.data(), 40});
  on_device::launch<Double>({2}, 0, {x.data(), 39});
  std::vector<int> expected(40, 12);
  expected[39] = 6;
  CHECK(x.read() == expected);
}

TEST_CASE("kernels wait until somebody needs what they do") {
  HostDevice& device = HostDevice::current();
  const on_device::Array<int> x(std::vector<int>(40, 1));
  const auto double_all = [&](int times, int n) {
    for (int i = 0; i < times; ++i) device.launch<Double>({2}, 0, {x.data(), n});
  };
  double_all(8, 40);  // enough for a graph
  CHECK(x.data()[0] == 1);
  CHECK(x.read() == std::vector<int>(40, 256));
  const int graphs = device.graphs();
  CHECK(graphs > 0);
  double_all(8, 1);  // the same graph with other arguments
  std::vector<int> expected(40, 256);
  expected[0] = 1 << 16;
  CHECK(x.read() == expected);
  CHECK(device.graphs() == graphs);

  const on_device::Array<int> nobody_wrote(2);
  double_all(2, 40);
  device.launch<Double>({}, 0, {nobody_wrote.data(), 2});
  double_all(5, 40);  // never executed
  CHECK(code_of([&] { device.finish(); }) == fd::ErrorCode::kDevice);
  CHECK_NOTHROW(device.finish());
  for (int& value : expected) value *= 4;
  CHECK(x.read() == expected);
}

TEST_CASE("what a kernel uses is not given back before it has run") {
  HostDevice& device = HostDevice::current();
  const on_device::Array<int> x(std::vector<int>(2, 1));
  {
    const on_device::Array<int> y(std::vector<int>(2, 1)), nobody_wrote(2);
    device.launch<Double>({}, 0, {y.data(), 2});
    device.launch<Double>({}, 0, {x.data(), 2});
    device.launch<Double>({}, 0, {nobody_wrote.data(), 2});
  }
  CHECK(code_of([&] { device.finish(); }) == fd::ErrorCode::kDevice);  // the last one alone
  CHECK(x.read() == std::vector<int>{2, 2});
}

TEST_CASE("what was uploaded may be read, what was not may not") {
  const on_device::Array<int> x(40);
  CHECK(code_of([&] { on_device::launch<Double>({1}, 0, {x.data(), 32}); }) ==
        fd::ErrorCode::kDevice);
}

TEST_CASE("streams have orders of their own, and no memory of each other's") {
  HostDevice& first = HostDevice::stream(0);
  HostDevice& second = HostDevice::stream(1);
  CHECK(&HostDevice::current() == &first);
  const on_device::Array<int> x(std::vector<int>(2, 1));
  {
    const fd::cuda::Chosen<HostDevice> here(second);
    CHECK(&HostDevice::current() == &second);
    const on_device::Array<int> y(std::vector<int>(2, 1));
    first.launch<Double>({}, 0, {x.data(), 2});
    second.launch<Double>({}, 0, {y.data(), 2});
    CHECK(y.read() == std::vector<int>{2, 2});
    CHECK(x.data()[0] == 1);  // nobody has asked
    second.launch<Double>({}, 0, {x.data(), 2});
    CHECK(code_of([&] { second.finish(); }) == fd::ErrorCode::kDevice);
    CHECK_NOTHROW(first.finish());  // an error is that of its stream
  }
  CHECK(&HostDevice::current() == &first);
  CHECK(x.read() == std::vector<int>{2, 2});
}

TEST_CASE("copies stay within a piece of the device's memory") {
  HostDevice& device = HostDevice::current();
  std::byte* const at = device.allocate(8);
  std::vector<std::byte> host(16);
  device.upload(at, host.data(), 8);
  CHECK(code_of([&] { device.upload(at, host.data(), 9); }) == fd::ErrorCode::kDevice);
  CHECK(code_of([&] { device.download(host.data(), at + 4, 5); }) == fd::ErrorCode::kDevice);
  CHECK(code_of([&] { device.download(host.data(), host.data(), 1); }) == fd::ErrorCode::kDevice);
  device.release(at, 8);
  CHECK(code_of([&] { device.upload(at, host.data(), 8); }) == fd::ErrorCode::kDevice);
}

TEST_CASE("the first error that is noted is thrown once") {
  HostDevice& device = HostDevice::current();
  device.note(std::make_exception_ptr(std::runtime_error("first")));
  device.note(std::make_exception_ptr(std::runtime_error("second")));
  CHECK_THROWS_WITH(device.finish(), "first");
  CHECK_NOTHROW(device.finish());
}
