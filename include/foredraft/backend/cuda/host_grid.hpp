#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include <foredraft/backend/cuda/checked_memory.hpp>
#include <foredraft/backend/cuda/device_ops.hpp>
#include <foredraft/backend/cuda/fiber.hpp>
#include <foredraft/backend/cuda/tensor_core.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

class HostGrid;

/// A thread of a grid that the host executes. See KernelThread for what it can do; every operation
/// that could be wrong on a device is checked, and says so through the grid.
class HostThread {
  using Where = std::source_location;

 public:
  int thread() const noexcept { return thread_; }
  inline int block_x() const noexcept;
  inline int block_y() const noexcept;
  inline int block_z() const noexcept;

  template <typename T>
  T* shared(int n, Where where = Where::current()) {
    return reinterpret_cast<T*>(take_shared(idx(n) * sizeof(T), where));
  }

  template <typename T>
  T load(const T* from, Where where = Where::current()) {
    static_assert(std::is_trivially_copyable_v<T>);
    check(Access::kRead, from, sizeof(T), alignof(T), where);
    T value;
    std::memcpy(static_cast<void*>(&value), from, sizeof(T));
    return value;
  }
  template <typename T>
  void store(T* to, const std::type_identity_t<T>& value, Where where = Where::current()) {
    static_assert(std::is_trivially_copyable_v<T>);
    check(Access::kWrite, to, sizeof(T), alignof(T), where);
    std::memcpy(static_cast<void*>(to), &value, sizeof(T));
  }
  /// What the copy is to write may not be read until it has been waited for.
  template <typename T>
  void copy_async(T* to, const T* from, Where where = Where::current()) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
    check(Access::kRead, from, sizeof(T), sizeof(T), where);
    if (!in_shared(to)) fail("copies to a place outside of shared memory", where);
    check(Access::kWrite, to, sizeof(T), sizeof(T), where);
    forget(to, sizeof(T));
    copies_.push_back({to, from, sizeof(T), groups_});
  }
  void copy_async_once(Words* to, const Words* from, Where where = Where::current()) {
    copy_async(to, from, where);
  }
  void commit_copies() noexcept { ++groups_; }
  template <int kPending>
  void wait_copies(Where where = Where::current()) {
    finish_copies(groups_ - kPending, where);
  }
  void wait_for_kernels() noexcept { waited_ = true; }

  int atomic_add(int* to, int value, Where where = Where::current()) {
    check(Access::kUpdate, to, sizeof(int), alignof(int), where);
    const int before = *to;
    *to = before + value;
    return before;
  }

  inline void sync(Where where = Where::current());

  template <typename V>
  V shuffle_xor(V value, int mask, Where where = Where::current()) {
    return shuffle(value, (thread_ % kWarp) ^ mask, where);
  }
  template <typename V>
  V shuffle(V value, int lane, Where where = Where::current()) {
    return exchange(value, where)[idx(lane % kWarp)].template get<V>();
  }
  template <typename V>
  V warp_sum(V value, Where where = Where::current()) {
    return fold(value, [this](V a, V b) { return add(a, b); }, where);
  }
  float warp_max(float value, Where where = Where::current()) {
    return fold(value, [this](float a, float b) { return max(a, b); }, where);
  }
  std::uint32_t ballot(bool vote, Where where = Where::current()) {
    const Slots& votes = exchange(vote, where);
    std::uint32_t bits = 0;
    for (std::size_t lane = 0; lane < votes.size(); ++lane) {
      bits |= static_cast<std::uint32_t>(votes[lane].get<bool>()) << lane;
    }
    return bits;
  }

  // A call of the library cannot be fused with what stands beside it, an operator could.
  float fma(float a, float b, float c) const noexcept { return std::fma(a, b, c); }
  float mul(float a, float b) const noexcept { return apart(a * b); }
  float add(float a, float b) const noexcept { return apart(a + b); }
  double add(double a, double b) const noexcept { return a + b; }
  float max(float a, float b) const noexcept { return std::fmax(a, b); }
  float sqrt(float a) const noexcept { return std::sqrt(a); }
  float divide(float a, float b) const noexcept { return a / b; }
  float exp(float a) const noexcept { return std::exp(a); }
  double exp(double a) const noexcept { return std::exp(a); }
  float tanh(float a) const noexcept { return std::tanh(a); }
  float log1p(float a) const noexcept { return std::log1p(a); }
  float half_to_float(std::uint16_t bits) const noexcept { return foredraft::half_to_float(bits); }
  std::uint16_t float_to_half(float value) const noexcept {
    return foredraft::float_to_half(value);
  }

  void mma(float (&d)[4], const Words& a, std::uint32_t b0, std::uint32_t b1,
           Where where = Where::current()) {
    multiply<bf16>(d, a, b0, b1, where);
  }
  void mma_half(float (&d)[4], const Words& a, std::uint32_t b0, std::uint32_t b1,
                Where where = Where::current()) {
    multiply<f16>(d, a, b0, b1, where);
  }
  std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) const noexcept {
    return (a & b) | c;
  }
  std::uint32_t halves(std::uint32_t low, std::uint32_t high, int upper) const noexcept {
    return upper == 0 ? (low & 0xffffu) | high << 16 : low >> 16 | (high & 0xffff0000u);
  }
  std::uint32_t bf16_pair(float low, float high) const noexcept {
    return float_to_bfloat16(low) | static_cast<std::uint32_t>(float_to_bfloat16(high)) << 16;
  }
  std::uint32_t half_pair(float low, float high) const noexcept {
    return float_to_half(low) | static_cast<std::uint32_t>(float_to_half(high)) << 16;
  }
  std::uint32_t add_bf16(std::uint32_t a, std::uint32_t b) const noexcept {
    return bf16_pair(low_of(a) + low_of(b), high_of(a) + high_of(b));
  }

 private:
  friend HostGrid;

  /// What a lane shows to the others of its warp.
  struct Slot {
    alignas(16) std::byte bytes[48];

    template <typename V>
    void set(const V& value) noexcept {
      static_assert(sizeof(V) <= sizeof bytes && std::is_trivially_copyable_v<V>);
      std::memcpy(bytes, &value, sizeof(V));
    }
    template <typename V>
    V get() const noexcept {
      V value;
      std::memcpy(&value, bytes, sizeof(V));
      return value;
    }
  };
  using Slots = std::array<Slot, kWarp>;

  enum class State : std::uint8_t {
    kRuns,
    kAtBarrier,
    kAtShuffle,
    kDone
  };

  /// The value as it is in memory, so that no compiler sees through it.
  static float apart(float value) noexcept {
    asm volatile("" : "+m"(value));
    return value;
  }

  /// Added up as by a Hopper's tensor core: see sum_of_tensor_core(). @tparam S  of the factors
  template <typename S>
  void multiply(float (&d)[4], const Words& a, std::uint32_t b0, std::uint32_t b1, Where where) {
    struct Operands {
      Words a;
      std::uint32_t b[2];
      float d[4];
    };
    Slots& lanes = exchange(Operands{a, {b0, b1}, {d[0], d[1], d[2], d[3]}}, where);
    if (thread_ % kWarp == 0) {  // the first lane to go on does it for all, as in fold()
      double rows[16][16], columns[8][16];
      for (int lane = 0; lane < kWarp; ++lane) {
        const auto operands = lanes[idx(lane)].template get<Operands>();
        const auto halves_to = [&](std::uint32_t word, double* to) {
          for (int i = 0; i < 2; ++i) {
            S half;
            half.bits = static_cast<std::uint16_t>(word >> 16 * i);
            to[i] = static_cast<double>(static_cast<float>(half));
          }
        };
        const int g = lane / 4, k = lane % 4 * 2;
        for (int i = 0; i < 4; ++i) halves_to(operands.a.v[i], rows[g + i % 2 * 8] + k + i / 2 * 8);
        for (int i = 0; i < 2; ++i) halves_to(operands.b[i], columns[g] + k + i * 8);
      }
      bool zeros[8], finite = true;  // many columns are rows that are not there
      for (int i = 0; i < 8; ++i) {
        zeros[i] = std::all_of(columns[i], columns[i] + 16, [](double x) { return x == 0; });
      }
      for (const auto& row : rows) {
        for (const double x : row) finite = finite && std::isfinite(x);
      }
      for (int lane = 0; lane < kWarp; ++lane) {
        auto operands = lanes[idx(lane)].template get<Operands>();
        for (int i = 0; i < 4; ++i) {
          const int column = lane % 4 * 2 + i % 2;
          if (zeros[column] && finite) continue;
          operands.d[i] =
              sum_of_tensor_core(operands.d[i], rows[lane / 4 + i / 2 * 8], columns[column]);
        }
        lanes[idx(lane)].set(operands);
      }
    }
    const auto sums = lanes[idx(thread_ % kWarp)].template get<Operands>();
    std::copy_n(sums.d, 4, d);
  }

  /// Halves of the warp's lanes are folded onto each other until one value is left. The first lane to
  /// go on does it for all: they go on in turns.
  template <typename V, typename F>
  V fold(const V& value, F&& f, Where where) {
    Slots& slots = exchange(value, where);
    if (thread_ % kWarp == 0) {
      for (std::size_t half = kWarp / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) {
          slots[i].set(f(slots[i].get<V>(), slots[i + half].get<V>()));
        }
      }
    }
    return slots[0].get<V>();
  }

  template <typename V>
  Slots& exchange(const V& value, Where where) {
    Slots& slots = next_slots();
    slots[idx(thread_ % kWarp)].set(value);
    wait_for_warp(where);
    return slots;
  }
  inline Slots& next_slots() noexcept;
  inline void wait_for_warp(Where where);

  /// On its way into shared memory.
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
    int group;
  };
  void finish_copies(int n_groups, Where where) {
    while (!copies_.empty() && copies_.front().group < n_groups) {
      const Copy copy = copies_.front();
      copies_.pop_front();
      check(Access::kWrite, copy.to, copy.bytes, copy.bytes, where);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }

  inline std::byte* take_shared(std::size_t bytes, Where where);
  inline bool in_shared(const void* data) const noexcept;
  inline void forget(const void* data, std::size_t bytes);
  [[noreturn]] inline void fail(const std::string& what, Where where);
  inline void check(Access kind, const void* data, std::size_t bytes, std::size_t alignment,
                    Where where);

  HostGrid* grid_ = nullptr;
  Fiber fiber_ = {};
  int thread_ = 0;
  State state_ = State::kDone;
  std::size_t taken_ = 0;  // pieces of shared memory
  unsigned shuffles_ = 0;  // so far
  Where where_ = {};       // it waits
  std::deque<Copy> copies_;
  int groups_ = 0;       // of copies, so far
  bool waited_ = false;  // for the kernels before
};
static_assert(KernelThread<HostThread>);

/// Executes grids on the host, block after block, all threads of a block in turns: each runs until it
/// waits for others. A warp goes on from a shuffle when all of its threads have come to it, a block
/// from a barrier likewise.
///
/// What it finds, it throws as an error of kernel, block, thread and line: access outside of what was
/// allocated or not aligned, races, memory that was never written, a barrier or shuffle that a thread
/// never reaches, or that two threads reach at different lines, more shared memory than was asked for,
/// a copy that is read before it has arrived, and what a kernel does before it has waited for others.
///
/// Not found: what tensor cores of other generations than Hopper's cut off their sums. Races are found
/// whether they would have done harm or not, and whatever the order of threads.
/// @cost an access some 20 ns, a shuffle some 10 ns for each thread
class HostGrid {
  using Where = std::source_location;
  using Thread = HostThread;
  using State = Thread::State;

 public:
  /// @param memory  what kernels may reach; this grid adds its shared memory to it while it runs
  explicit HostGrid(CheckedMemory& memory) : memory_(&memory) {}
  HostGrid(HostGrid&&) = delete;

  /// Run a kernel to its end. @param shared  bytes of shared memory of a block
  /// @errors kDevice for what the kernel does wrong; what it wrote until then stays written
  template <typename K>
  void run(const Grid& grid, int shared, const typename K::Args& args) {
    static_assert(K::kThreads % kWarp == 0 && K::kThreads <= 1024);
    static_assert(std::is_trivially_copyable_v<typename K::Args> &&
                  sizeof(typename K::Args) <= 4096);
    struct Job {
      const typename K::Args* args;
    } job{&args};
    check_limits(K::kName, grid, shared);
    waits_itself_ = LoadsAhead<K>;
    begin(K::kName, K::kThreads, shared, &job, [](void* of) {
      auto& thread = *static_cast<Thread*>(of);
      K::run(thread, *static_cast<Job*>(thread.grid_->job_)->args);
      if (!thread.waited_) thread.fail("ends before it has waited for the kernels before it", {});
      thread.state_ = State::kDone;
    });
    const int n_blocks = grid.x * grid.y * grid.z;
    for (int i = 0; i < n_blocks && !fault_; ++i) {
      block_ = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
      run_block();
    }
    end();
  }

 private:
  friend Thread;
  static constexpr std::size_t kStack = 64 << 10;  // kernels call little, and nothing recursive

  struct Piece {
    std::byte* data;
    std::size_t bytes;
  };
  struct WarpSlots {
    std::array<Thread::Slots, 2> slots = {};  // one is written while the other may still be read
  };

  /// What a GPU would refuse to start.
  static void check_limits(const char* name, const Grid& grid, int shared) {
    constexpr int kMostBlocks = 65535;  // in y, and in z
    const bool any = grid.x > 0 && grid.y > 0 && grid.z > 0;
    if (any && grid.y <= kMostBlocks && grid.z <= kMostBlocks && shared <= kMostShared) return;
    throw Error(ErrorCode::kDevice,
                std::string("kernel ") + name + " with a grid of " + std::to_string(grid.x) +
                    " by " + std::to_string(grid.y) + " by " + std::to_string(grid.z) + " and " +
                    std::to_string(shared) + " bytes of shared memory",
                "some blocks, at most 65535 in y and in z, and 99 KB", "");
  }

  void begin(const char* name, int threads, int shared, void* job, void (*body)(void*)) {
    name_ = name;
    shared_limit_ = shared;
    job_ = job;
    body_ = body;
    fault_.reset();
    moment_.kernel = ++moment_.now;
    while (threads_.size() < idx(threads)) {
      threads_.push_back(std::make_unique<Thread>());
      stacks_.emplace_back(new std::byte[kStack]);
    }
    n_threads_ = threads;
    warps_.resize(idx(threads / kWarp));
  }

  void end() {
    for (const Piece& piece : shared_) memory_->release(piece.data);
    shared_.clear();
    shared_taken_ = 0;
    if (fault_) throw Error(ErrorCode::kDevice, *fault_, "a kernel without faults", "");
  }

  void run_block() {
    moment_.block = ++moment_.now;
    for (const Piece& piece : shared_) memory_->find(piece.data, piece.bytes)->forget();
    for (int i = 0; i < n_threads_; ++i) {
      Thread& thread = *threads_[idx(i)];
      thread.grid_ = this;
      thread.thread_ = i;
      thread.state_ = State::kRuns;
      thread.taken_ = 0;
      thread.shuffles_ = 0;
      thread.copies_.clear();
      thread.groups_ = 0;
      thread.waited_ = !waits_itself_;
      thread.fiber_.start(body_, &thread, stacks_[idx(i)].get(), kStack);
    }
    for (;;) {
      for (int i = 0; i < n_threads_; ++i) {
        Thread& thread = *threads_[idx(i)];
        if (thread.state_ == State::kRuns) thread.fiber_.resume();
        if (fault_) return;
      }
      if (all(0, n_threads_, State::kDone)) return;
      if (!pass_barrier() && !pass_shuffles()) return stuck();
      if (fault_) return;
    }
  }

  bool all(int first, int n, State state) const noexcept {
    for (int i = first; i < first + n; ++i) {
      if (threads_[idx(i)]->state_ != state) return false;
    }
    return true;
  }

  /// Whether some threads that all wait do so at one line; then let them go on.
  bool pass(int first, int n, State state) {
    if (!all(first, n, state)) return false;
    const Where& where = threads_[idx(first)]->where_;
    for (int i = first; i < first + n; ++i) {
      Thread& thread = *threads_[idx(i)];
      thread.state_ = State::kRuns;
      if (thread.where_.line() != where.line()) {
        fail(thread,
             "waits elsewhere than thread " + std::to_string(first) + ", at line " +
                 std::to_string(where.line()),
             thread.where_);
      }
    }
    return true;
  }
  bool pass_barrier() {
    if (!pass(0, n_threads_, State::kAtBarrier)) return false;
    ++moment_.now;
    return true;
  }
  bool pass_shuffles() {
    bool any = false;
    for (int i = 0; i < n_threads_; i += kWarp) any |= pass(i, kWarp, State::kAtShuffle);
    return any;
  }

  /// Nobody can go on: say who waits for whom. A warp with threads at a shuffle is divided then, and
  /// why the others of the block wait at a barrier; where there is none, somebody has ended.
  void stuck() {
    const auto first = [&](int from, int to, State state, bool is) {
      while (from < to && (threads_[idx(from)]->state_ == state) != is) ++from;
      return from;
    };
    int waiting = first(0, n_threads_, State::kAtShuffle, true);
    const bool shuffle = waiting < n_threads_;
    const State state = shuffle ? State::kAtShuffle : State::kAtBarrier;
    const int begin = shuffle ? waiting / kWarp * kWarp : 0;
    if (!shuffle) waiting = first(0, n_threads_, state, true);
    const int missing = first(begin, n_threads_, state, false);
    const bool ended = threads_[idx(missing)]->state_ == State::kDone;
    fail(*threads_[idx(waiting)],
         std::string("waits at a ") + (shuffle ? "shuffle" : "barrier") + " that thread " +
             std::to_string(missing) + " never reaches, which " +
             (ended ? "has ended" : "waits at a barrier"),
         threads_[idx(waiting)]->where_);
  }

  void fail(const Thread& thread, const std::string& what, const Where& where) {
    if (fault_) return;
    const std::string file = where.file_name();
    fault_ = std::string("a fault of kernel ") + name_ + ": thread " +
             std::to_string(thread.thread_) + " of block (" + std::to_string(block_[0]) + ", " +
             std::to_string(block_[1]) + ", " + std::to_string(block_[2]) + ") " + what + " (" +
             file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line()) + ")";
  }
  /// Likewise, on the thread's own fiber, which ends here.
  [[noreturn]] void fail_inside(Thread& thread, const std::string& what, const Where& where) {
    fail(thread, what, where);
    for (;;) thread.fiber_.pause();
  }

  CheckedMemory* memory_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<std::byte[]>> stacks_;
  std::vector<WarpSlots> warps_;
  std::vector<Piece> shared_;  // of a block, in the order in which they are taken
  int shared_taken_ = 0;
  int shared_limit_ = 0;
  bool waits_itself_ = false;  // for the kernels before
  const char* name_ = "";
  void* job_ = nullptr;
  void (*body_)(void*) = nullptr;
  int n_threads_ = 0;
  std::array<int, 3> block_ = {};
  Moment moment_ = {};
  std::optional<std::string> fault_;
};

int HostThread::block_x() const noexcept { return grid_->block_[0]; }
int HostThread::block_y() const noexcept { return grid_->block_[1]; }
int HostThread::block_z() const noexcept { return grid_->block_[2]; }

void HostThread::sync(Where where) {
  state_ = State::kAtBarrier;
  where_ = where;
  fiber_.pause();
}

HostThread::Slots& HostThread::next_slots() noexcept {
  return grid_->warps_[idx(thread_ / kWarp)].slots[shuffles_++ % 2];
}

void HostThread::wait_for_warp(Where where) {
  state_ = State::kAtShuffle;
  where_ = where;
  fiber_.pause();
}

void HostThread::fail(const std::string& what, Where where) {
  grid_->fail_inside(*this, what, where);
}

bool HostThread::in_shared(const void* data) const noexcept {
  const auto* const at = static_cast<const std::byte*>(data);
  for (const HostGrid::Piece& piece : grid_->shared_) {
    if (std::less_equal<>()(piece.data, at) && std::less<>()(at, piece.data + piece.bytes))
      return true;
  }
  return false;
}

void HostThread::forget(const void* data, std::size_t bytes) {
  CheckedPiece* const piece = grid_->memory_->find(data, bytes);
  piece->forget(idx(static_cast<const std::byte*>(data) - piece->data()), bytes);
}

void HostThread::check(Access kind, const void* data, std::size_t bytes, std::size_t alignment,
                       Where where) {
  const auto fail = [&](const char* what) {
    char address[2 + 16 + 1];
    std::uintptr_t rest = reinterpret_cast<std::uintptr_t>(data);
    for (int i = 17; i >= 2; --i, rest /= 16) address[i] = "0123456789abcdef"[rest % 16];
    address[0] = '0';
    address[1] = 'x';
    address[18] = 0;
    this->fail(std::string(what) + ", " + std::to_string(bytes) + " bytes at " + address, where);
  };
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
    fail("uses a place that is not aligned");
  CheckedPiece* const piece = grid_->memory_->find(data, bytes);
  if (piece == nullptr) fail("leaves the memory that it was given");
  grid_->moment_.thread = static_cast<std::uint16_t>(thread_);
  const auto offset = idx(static_cast<const std::byte*>(data) - piece->data());
  if (!waited_ && !in_shared(data)) {
    if (kind != Access::kRead) fail("writes before it has waited for the kernels before it");
    if (!piece->only_host_wrote(offset, bytes))
      fail("reads what a kernel wrote before it has waited for the kernels before it");
  }
  if (const Complaint complaint = piece->access(kind, offset, bytes, grid_->moment_))
    fail(complaint);
}

std::byte* HostThread::take_shared(std::size_t bytes, Where where) {
  auto& pieces = grid_->shared_;
  if (taken_ == pieces.size()) {
    grid_->shared_taken_ += shared_bytes<std::byte>(static_cast<int>(bytes));
    if (grid_->shared_taken_ > grid_->shared_limit_) {
      grid_->fail_inside(*this,
                         "takes " + std::to_string(grid_->shared_taken_) +
                             " bytes of shared memory, and its kernel was started with " +
                             std::to_string(grid_->shared_limit_),
                         where);
    }
    pieces.push_back({grid_->memory_->allocate(bytes), bytes});
  }
  const HostGrid::Piece& piece = pieces[taken_++];
  if (piece.bytes != bytes) {
    grid_->fail_inside(*this, "takes another amount of shared memory than the threads before it",
                       where);
  }
  return piece.data;
}

}  // namespace foredraft::inline v0::cuda
