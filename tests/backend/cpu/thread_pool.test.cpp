#include <foredraft/backend/cpu/thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cpu::ThreadPool;

TEST_CASE("every worker runs every region once") {
  for (int threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    REQUIRE(pool.size() == threads);
    std::vector<int> runs(fd::idx(threads));
    for (int region = 0; region < 300; ++region)
      pool.run([&](int worker) { ++runs[fd::idx(worker)]; });
    CHECK(runs == std::vector<int>(fd::idx(threads), 300));
  }
}

TEST_CASE("the caller is worker 0") {
  ThreadPool pool(2);
  std::vector<std::thread::id> ids(2);
  pool.run([&](int worker) { ids[fd::idx(worker)] = std::this_thread::get_id(); });
  CHECK(ids[0] == std::this_thread::get_id());
  CHECK(ids[1] != ids[0]);
}

TEST_CASE("what a worker wrote before a barrier every worker reads after it") {
  for (int threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    std::vector<int> values(fd::idx(threads));
    std::vector<int> wrong(fd::idx(threads));
    pool.run([&](int worker) {
      for (int step = 1; step <= 500; ++step) {
        values[fd::idx(worker)] = step * (worker + 1);
        pool.barrier();
        for (int other = 0; other < threads; ++other) {
          if (values[fd::idx(other)] != step * (other + 1)) ++wrong[fd::idx(worker)];
        }
        pool.barrier();
      }
    });
    CHECK(wrong == std::vector<int>(fd::idx(threads)));
  }
}

TEST_CASE("workers wait for one that comes late, at a barrier and at the end of a region") {
  for (int threads = 2; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (int late = 0; late < threads; ++late) {
      CAPTURE(threads, late);
      std::vector<int> values(fd::idx(threads));
      std::vector<int> sums(fd::idx(threads));
      std::vector<int> ends(fd::idx(threads));
      pool.run([&](int worker) {
        // Far longer than workers stay awake.
        if (worker == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        values[fd::idx(worker)] = 1;
        pool.barrier();
        for (const int value : values) sums[fd::idx(worker)] += value;
        if (worker == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ends[fd::idx(worker)] = 1;
      });
      CHECK(sums == std::vector<int>(fd::idx(threads), threads));
      CHECK(ends == std::vector<int>(fd::idx(threads), 1));
    }
  }
}

TEST_CASE("nobody oversleeps, whenever the last worker comes") {
  // Around the time at which workers go to sleep, in steps of a microsecond.
  ThreadPool pool(2);
  int turns = 0;
  pool.run([&](int worker) {
    for (int delay = 0; delay < 500; ++delay) {
      const int late = delay % 2;
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(delay);
      while (worker == late && std::chrono::steady_clock::now() < until) {
      }
      if (worker == 0) ++turns;
      pool.barrier();
    }
  });
  CHECK(turns == 500);
}

TEST_CASE("barriers are counted, with the one that ends a region") {
  for (int threads = 1; threads <= 3; ++threads) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    for (int region = 0; region < 10; ++region) {
      pool.run([&](int) {
        pool.barrier();
        pool.barrier();
      });
    }
    CHECK(pool.barriers() == (threads == 1 ? 0 : 30));
  }
}

TEST_CASE("two pools do not disturb each other") {
  ThreadPool first(2);
  ThreadPool second(3);
  std::atomic<int> count = 0;
  for (int i = 0; i < 100; ++i) {
    first.run([&](int) { ++count; });
    second.run([&](int) { ++count; });
  }
  CHECK(count == 100 * 2 + 100 * 3);
}

TEST_CASE("a second caller waits for the first") {
  ThreadPool pool(2);
  std::atomic<int> inside = 0;
  std::atomic<bool> mixed = false;
  std::atomic<int> count = 0;
  const auto call = [&](int id) {
    for (int i = 0; i < 200; ++i) {
      pool.run([&](int) {
        int expected = 0;
        if (!inside.compare_exchange_strong(expected, id) && expected != id) mixed = true;
        ++count;
        pool.barrier();
        inside = 0;
        pool.barrier();
      });
    }
  };
  std::thread other(call, 1);
  call(2);
  other.join();
  CHECK_FALSE(mixed);
  CHECK(count == 2 * 200 * 2);
}

TEST_CASE("sleeping workers wake up") {
  ThreadPool pool(2);
  std::atomic<int> count = 0;
  for (int i = 0; i < 5; ++i) {
    // Far longer than workers spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.run([&](int) { ++count; });
  }
  CHECK(count == 10);
}

TEST_CASE("a pool that never ran anything ends") {
  for (int i = 0; i < 20; ++i) ThreadPool pool(3);
}

TEST_CASE("the number of threads") {
  CHECK(ThreadPool().size() == fd::cpu::usable_cpus());
  for (const int threads : {-1, ThreadPool::kMaxThreads + 1}) {
    try {
      ThreadPool pool(threads);
      FAIL("no error");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kInvalidOption);
    }
  }
}
