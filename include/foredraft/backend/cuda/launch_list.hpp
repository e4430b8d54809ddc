#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// A kernel that somebody asked for, but for its arguments.
struct Launch {
  const void* kernel = nullptr;  // what the device starts
  const char* name = "";
  Grid grid = {};
  int threads = 0;  // of a block
  int shared = 0;   // bytes of a block
  std::size_t args_begin = 0;
};

/// Kernels in the order in which they were asked for, each with a copy of its arguments: so a device
/// can start them together, when it is asked for something that has to come behind them.
class LaunchList {
 public:
  /// @param kernel  which one, as the device knows it
  template <typename K>
  void add(const void* kernel, const Grid& grid, int shared, const typename K::Args& args) {
    using Args = typename K::Args;
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= 4096 &&
                  alignof(Args) <= alignof(Words));
    const std::size_t begin = args_.size();
    if (launches_.size() == launches_.capacity()) launches_.reserve(2 * launches_.size() + 16);
    args_.resize(begin + (sizeof(Args) + sizeof(Words) - 1) / sizeof(Words));
    std::memcpy(static_cast<void*>(args_.data() + begin), &args, sizeof(Args));
    launches_.push_back({kernel, K::kName, grid, K::kThreads, shared, begin});
  }
  void clear() noexcept {
    launches_.clear();
    args_.clear();
  }

  int size() const noexcept { return static_cast<int>(launches_.size()); }
  bool empty() const noexcept { return launches_.empty(); }
  const Launch& operator[](int i) const noexcept { return launches_[idx(i)]; }
  /// Where the arguments of launch i are, aligned for what they were.
  const void* args(int i) const noexcept { return args_.data() + launches_[idx(i)].args_begin; }

  /// Launch i of a list that resembles this one, in place of one's own.
  void take(const LaunchList& other, int i) {
    launches_[idx(i)] = other.launches_[idx(i)];  // its arguments lie as far behind the beginning
    std::memcpy(args_.data() + launches_[idx(i)].args_begin, other.args(i), args_bytes(i));
  }

  /// The same kernels, and as many blocks of the first: for passes of a model, the same operators over
  /// as many rows. What else is different is a matter of arguments.
  bool resembles(const LaunchList& other) const noexcept {
    if (size() != other.size() || empty()) return size() == other.size();
    if (!(launches_[0].grid == other.launches_[0].grid)) return false;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (launches_[i].kernel != other.launches_[i].kernel) return false;
    }
    return true;
  }
  /// Launch i of two lists that resemble each other, to the last argument. What pads arguments is
  /// compared, too, so equal ones may be found to differ: they are told to a graph once more.
  bool same(int i, const LaunchList& other) const noexcept {
    const Launch& a = launches_[idx(i)];
    const Launch& b = other.launches_[idx(i)];
    return a.grid == b.grid && a.shared == b.shared &&
           std::memcmp(args(i), other.args(i), args_bytes(i)) == 0;
  }

 private:
  std::size_t args_bytes(int i) const noexcept {
    const std::size_t end = i + 1 < size() ? launches_[idx(i + 1)].args_begin : args_.size();
    return (end - launches_[idx(i)].args_begin) * sizeof(Words);
  }

  std::vector<Launch> launches_;
  std::vector<Words> args_;
};

}  // namespace foredraft::inline v0::cuda
