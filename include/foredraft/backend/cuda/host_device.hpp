#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <foredraft/backend/cuda/checked_memory.hpp>
#include <foredraft/backend/cuda/device.hpp>
#include <foredraft/backend/cuda/host_grid.hpp>
#include <foredraft/backend/cuda/launch_graphs.hpp>
#include <foredraft/backend/cuda/launch_list.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// Executes kernels for a HostDevice. A graph holds copies of its launches, and what it executes is
/// these: whatever was not updated has old arguments, as on a GPU.
class HostLaunches {
 public:
  using Graph = LaunchList;

  explicit HostLaunches(HostGrid& grid) : grid_(&grid) {}

  /// What stands for a kernel.
  template <typename K>
  static const void* kernel() noexcept {
    static constexpr Run kRun = [](HostGrid& grid, const Launch& launch, const void* args) {
      grid.run<K>(launch.grid, launch.shared, *static_cast<const typename K::Args*>(args));
    };
    return &kRun;
  }

  void start(const LaunchList& list, int i) const {
    (*static_cast<const Run*>(list[i].kernel))(*grid_, list[i], list.args(i));
  }
  Graph graph_of(const LaunchList& list) const { return list; }
  void update(Graph& graph, const LaunchList& list, int i) const { graph.take(list, i); }
  void start(Graph& graph) const {
    for (int i = 0; i < graph.size(); ++i) start(graph, i);
  }

 private:
  using Run = void (*)(HostGrid&, const Launch&, const void* args);

  HostGrid* grid_;
};

/// A device that the host plays: kernels are executed and checked (see HostGrid). For tests on machines
/// without a GPU; nobody would want to decode with it.
class HostDevice {
 public:
  static HostDevice& current() {
    HostDevice* const chosen = Chosen<HostDevice>::innermost();
    return chosen != nullptr ? *chosen : stream(0);
  }
  /// Kernels of one may not touch the memory of another: on a GPU nothing would order them.
  static HostDevice& stream(int n) {
    static std::mutex mutex;
    // Never destroyed: they outlive whatever holds memory of them.
    static auto& devices = *new std::map<int, std::unique_ptr<HostDevice>>;
    const std::lock_guard lock(mutex);
    std::unique_ptr<HostDevice>& device = devices[n];
    if (!device) device.reset(new HostDevice);
    return *device;
  }

  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    try {
      if (allocations_left_ == 0) throw std::bad_alloc();
      --allocations_left_;
      return memory_.allocate(bytes);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes",
                  "more of it", "");
    }
  }
  void release(std::byte* data, std::size_t) noexcept {
    const std::lock_guard lock(mutex_);
    execute_noting();  // what was asked for before may use it
    memory_.release(data);
  }

  /// @errors kDevice for a place that is not of this device
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) return;
    execute();
    CheckedPiece& piece = piece_of(to, bytes);
    std::memcpy(to, from, bytes);
    piece.written_by_host(idx(to - piece.data()), bytes);
  }
  void download(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) return;
    execute();
    (void)piece_of(from, bytes);
    std::memcpy(to, from, bytes);
  }

  template <typename K>
  void launch(const Grid& grid, int shared, const typename K::Args& args) {
    const std::lock_guard lock(mutex_);
    asked_.add<K>(HostLaunches::kernel<K>(), grid, shared, args);
    ++launches_;
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    execute_noting();
    if (noted_) std::rethrow_exception(std::exchange(noted_, nullptr));
  }
  void note(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    keep(std::move(error));
  }

  /// After n more allocations there is no memory, for tests; a negative n: there always is.
  void run_out_after(int n) noexcept {
    const std::lock_guard lock(mutex_);
    allocations_left_ = n;
  }
  /// Kernels that were asked for so far, and pieces of memory that somebody holds: for tests.
  std::size_t launches() const noexcept { return launches_; }
  int graphs() const noexcept { return graphs_.kept(); }
  std::size_t pieces() const noexcept { return memory_.pieces(); }

 private:
  HostDevice() = default;

  void keep(std::exception_ptr error) noexcept {
    if (!noted_) noted_ = std::move(error);
  }
  void execute() { graphs_.run(asked_); }
  void execute_noting() noexcept {
    try {
      execute();
    } catch (...) {
      keep(std::current_exception());
    }
  }
  CheckedPiece& piece_of(const std::byte* data, std::size_t bytes) {
    if (CheckedPiece* const piece = memory_.find(data, bytes)) return *piece;
    throw Error(ErrorCode::kDevice, "a copy of " + std::to_string(bytes) + " bytes",
                "all of them in one piece of the device's memory", "");
  }

  std::mutex mutex_;
  CheckedMemory memory_;
  HostGrid grid_{memory_};
  LaunchList asked_;  // and not executed
  LaunchGraphs<HostLaunches> graphs_{HostLaunches(grid_)};
  std::exception_ptr noted_;
  std::size_t launches_ = 0;
  std::int64_t allocations_left_ = -1;
};
static_assert(Device<HostDevice>);

}  // namespace foredraft::inline v0::cuda
