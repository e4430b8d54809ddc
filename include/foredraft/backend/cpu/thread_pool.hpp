#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include <foredraft/backend/cpu/usable_cpus.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cpu {

/// Persistent threads that execute one body at a time, all of them together: a parallel region.
///
/// The calling thread is worker 0, the pool's own threads are workers 1 .. size() - 1. Its threads
/// spin for a while after a region, because decoding starts the next one within microseconds, and
/// then sleep until there is work. Workers that wait at a barrier spin, then yield, and then sleep
/// too. Where there are more workers than processors (only by an explicit request), none of them
/// spins.
///
/// One pool serves all models of a program. Regions come one at a time: a second thread that calls
/// run() waits for the first. run() from inside a region would wait for itself and is not allowed.
/// @cost a region about 1 us while its threads spin, a barrier 0.2 us with two workers
class ThreadPool {
 public:
  /// More workers than any machine has processors for would only hide a mistyped option.
  static constexpr int kMaxThreads = 1024;

  /// @param threads number of workers; 0 asks for as many as affinity mask and cgroup quota allow.
  ///        An explicit number is obeyed up to kMaxThreads, even beyond the processors there are.
  /// @errors kInvalidOption, kOutOfMemory where a thread cannot be started
  explicit ThreadPool(int threads = 0) : size_(checked_size(threads)) {
    const bool oversubscribed = size_ > usable_cpus();
    spins_ = oversubscribed ? 0 : kSpins;
    try {
      threads_.reserve(idx(size_ - 1));
      for (int worker = 1; worker < size_; ++worker)
        threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::exception& refused) {
      const std::string started = std::to_string(threads_.size() + 1);
      stop();
      throw Error(ErrorCode::kOutOfMemory,
                  "no more than " + started + " threads (" + refused.what() + ")",
                  std::to_string(size_) + " threads", "ask for fewer threads");
    }
  }

  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept { return size_; }

  /// How often all workers have met, at barriers and at the ends of regions; 0 for ever with one
  /// worker.
  std::uint32_t barriers() const noexcept { return phase_.load(std::memory_order_relaxed); }

  /// body(worker) once on every worker; returns when all are done. What the caller wrote before is
  /// visible to every worker, and what the workers wrote is visible to the caller afterwards. The
  /// body must not throw: that ends the program.
  template <typename Body>
  void run(Body&& body) {
    using Function = std::remove_reference_t<Body>;
    const std::lock_guard<std::mutex> one_caller(callers_);
    // The mutable address of a const body is only ever used as the type that it has.
    context_ = const_cast<void*>(static_cast<const void*>(std::addressof(body)));
    invoke_ = [](void* context, int worker) noexcept {
      (*static_cast<Function*>(context))(worker);
    };
    if (size_ > 1) {
      region_.fetch_add(1, std::memory_order_release);
      region_.notify_all();  // no system call while nobody sleeps
    }
    invoke_(context_, 0);
    barrier();
  }

  /// Wait, inside a region, until every worker has come here. What a worker wrote before, every
  /// worker may read after.
  void barrier() noexcept {
    if (size_ == 1) return;
    const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      // Sequentially consistent, as is whatever of sleepers_ and phase_ meets it: either this
      // worker sees the sleeper, or the sleeper sees the phase.
      phase_.store(phase + 1, std::memory_order_seq_cst);
      if (sleepers_.load(std::memory_order_seq_cst) != 0) phase_.notify_all();
      return;
    }
    const int awake = spins_ + kYields;
    for (int waits = 0; phase_.load(std::memory_order_acquire) == phase;) {
      if (waits < awake) {
        wait_a_little(waits);
      } else {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        phase_.wait(phase, std::memory_order_seq_cst);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }

 private:
  // Pauses before a waiting worker begins to yield, about 20 us: workers differ by less, unless one
  // of them has lost its processor, and then it may need this one.
  static constexpr int kSpins = 1000;
  // Yields before a waiting worker sleeps: about 200 us where nobody else wants the processor,
  // several times what it costs to be woken. Only a worker that was taken off its processor is as
  // late.
  static constexpr int kYields = 500;
  // How long a thread stays awake for the next region. The gap between two forward passes
  // (sampling, drafting, printing) is shorter; waking a sleeper costs about 50 us.
  static constexpr std::chrono::microseconds kAwake{300};

  static int checked_size(int threads) {
    if (threads < 0 || threads > kMaxThreads) {
      throw Error(ErrorCode::kInvalidOption, std::to_string(threads) + " threads",
                  "0 (as many as may run at once) to " + std::to_string(kMaxThreads),
                  "more threads than processors make it slower");
    }
    return threads == 0 ? usable_cpus() : threads;
  }

  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void wait_a_little(int& waits) const noexcept {
    if (waits++ < spins_) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }

  void serve(int worker) noexcept {
    // Regions are counted from 0, and a thread takes part in every one, however late its thread
    // comes up.
    for (std::uint32_t seen = 0;; ++seen) {
      await_region(seen);
      if (stopping_.load(std::memory_order_relaxed)) return;
      invoke_(context_, worker);
      barrier();
    }
  }

  void await_region(std::uint32_t seen) const noexcept {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point sleep = Clock::now() + kAwake;
    for (int waits = 0; region_.load(std::memory_order_acquire) == seen;) {
      wait_a_little(waits);
      if (waits >= spins_ && Clock::now() > sleep) {
        region_.wait(seen, std::memory_order_acquire);
        return;
      }
    }
  }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_relaxed);
    region_.fetch_add(1, std::memory_order_release);
    region_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const int size_;
  int spins_ = 0;
  std::mutex callers_;
  void (*invoke_)(void*, int) noexcept = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  // Each on a cache line of its own: workers that spin on one must not slow down those that count
  // on another.
  alignas(64) std::atomic<std::uint32_t> region_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  // Workers asleep at a barrier; beside phase_, because whoever ends the phase looks at it. The
  // standard library counts too, but sleepers of other pools among them.
  std::atomic<int> sleepers_{0};
  alignas(64) std::vector<std::thread> threads_;
};

}  // namespace foredraft::inline v0::cpu
