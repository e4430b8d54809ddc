#include <foredraft/backend/cuda/fiber.hpp>

#include <memory>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cuda::Fiber;

namespace {

constexpr std::size_t kStack = 64 << 10;

struct Counter {
  Fiber fiber = {};
  std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
  int first = 0;
  std::vector<double> seen = {};

  static void count(void* of) {
    auto& self = *static_cast<Counter*>(of);
    double running = 0.5;  // a register that has to survive
    for (int i = self.first; i < self.first + 3; ++i) {
      running += i;
      self.seen.push_back(running);
      self.fiber.pause();
    }
  }
  void start(int from) {
    first = from;
    seen.clear();
    fiber.start(&count, this, stack.get(), kStack);
  }
};

}  // namespace

TEST_CASE("fibers take turns, each where it paused") {
  Counter a, b;
  CHECK(a.fiber.done());
  a.start(10);
  b.start(20);
  double mine = 1.25;
  while (!a.fiber.done() || !b.fiber.done()) {
    if (!a.fiber.done()) a.fiber.resume();
    if (!b.fiber.done()) b.fiber.resume();
    mine *= 2;
  }
  CHECK(mine == 1.25 * 16);  // three turns and one to end
  CHECK(a.seen == std::vector<double>{10.5, 21.5, 33.5});
  CHECK(b.seen == std::vector<double>{20.5, 41.5, 63.5});
}

TEST_CASE("a fiber may be forgotten in the middle, and its stack used again") {
  Counter a;
  for (int i = 0; i < 100; ++i) {
    a.start(i);
    a.fiber.resume();
    CHECK(a.seen.size() == 1);
    CHECK(!a.fiber.done());
  }
}

TEST_CASE("a fiber may own fibers") {
  struct Outer {
    Fiber fiber = {};
    std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
    Counter inner = {};
    static void run(void* of) {
      auto& self = *static_cast<Outer*>(of);
      self.inner.start(1);
      while (!self.inner.fiber.done()) {
        self.inner.fiber.resume();
        self.fiber.pause();
      }
    }
  } outer;
  outer.fiber.start(&Outer::run, &outer, outer.stack.get(), kStack);
  int turns = 0;
  for (; !outer.fiber.done(); ++turns) outer.fiber.resume();
  CHECK(turns == 5);
  CHECK(outer.inner.seen.size() == 3);
}
