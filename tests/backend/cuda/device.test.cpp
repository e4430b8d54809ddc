#include <foredraft/backend/cuda/device.hpp>

#include <utility>
#include <vector>

#include <foredraft/backend/cuda/host_device.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

template <typename T>
concept Dereferences = requires(T pointer) { *pointer; };
static_assert(!Dereferences<DevicePointer<float>>);
static_assert(std::is_convertible_v<DevicePointer<float>, DevicePointer<const float>>);
static_assert(!std::is_convertible_v<DevicePointer<const float>, DevicePointer<float>>);
static_assert(!std::is_convertible_v<DevicePointer<int>, DevicePointer<const float>>);

struct NoNote : HostDevice {  // a near miss
  void note(std::exception_ptr) = delete;
};
static_assert(!Device<NoNote> && !Device<int>);

}  // namespace

TEST_CASE("memory goes with its owner") {
  HostDevice& device = HostDevice::current();
  const std::size_t before = device.pieces();
  {
    DeviceMemory<HostDevice, double> a(10);
    CHECK(a.size() == 10);
    DeviceMemory<HostDevice, double> b = std::move(a);
    CHECK(a.data() == nullptr);
    CHECK(device.pieces() == before + 1);
    b = DeviceMemory<HostDevice, double>(3);
    CHECK(device.pieces() == before + 1);
    const DeviceMemory<HostDevice, double> nothing;
    CHECK(nothing.data() == nullptr);
  }
  CHECK(device.pieces() == before);
}

TEST_CASE("a buffer has room, keeps it, and grows") {
  DeviceBuffer<HostDevice, int> buffer;
  const DevicePointer<int> room = buffer.reserve(5);
  CHECK(room);
  CHECK(buffer.reserve(3).raw() == room.raw());
  const std::vector<int> values{1, 2, 3, 4, 5, 6, 7};
  const DevicePointer<const int> at = buffer.write(values);
  std::vector<int> back(7);
  HostDevice::current().download(reinterpret_cast<std::byte*>(back.data()),
                                 reinterpret_cast<const std::byte*>(at.raw()), 7 * sizeof(int));
  CHECK(back == values);
  CHECK(DeviceBuffer<HostDevice, int>{}.write({}));  // room for nothing is a place as well
  CHECK(!DevicePointer<int>{});
}

TEST_CASE("a vector is empty or has its values") {
  CHECK(DeviceVector<HostDevice>{}.empty());
  CHECK(!DeviceVector<HostDevice>{}.data());
  const std::vector<float> values{1, 2};
  const DeviceVector<HostDevice> vector{std::span(values)};
  CHECK(!vector.empty());
  CHECK(vector.data());
}
