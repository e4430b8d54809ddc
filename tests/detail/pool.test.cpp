#include <foredraft/detail/pool.hpp>

#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Counted {
  int number = 0;
};

}  // namespace

TEST_CASE("what is given back is lent again, and nothing is lent twice at once") {
  fd::detail::Pool<Counted> pool;
  int made = 0;
  const auto make = [&] { return Counted{made++}; };
  for (int i = 0; i < 3; ++i) {
    const auto only = pool.borrow(make);
    CHECK(only->number == 0);
  }
  {
    const auto first = pool.borrow(make);
    const auto second = pool.borrow(make);
    CHECK(first->number != second->number);
  }
  CHECK(made == 2);
}

TEST_CASE("a pool that was moved keeps what it has, and one that cannot make lends nothing") {
  fd::detail::Pool<Counted> pool;
  {
    const auto loan = pool.borrow([] { return Counted{7}; });
  }
  fd::detail::Pool<Counted> moved = std::move(pool);
  const auto loan = moved.borrow([]() -> Counted { throw std::runtime_error("made another"); });
  CHECK(loan->number == 7);
  CHECK_THROWS(moved.borrow([]() -> Counted { throw std::runtime_error("cannot be made"); }));
}

TEST_CASE("threads that borrow at the same time have an object each") {
  fd::detail::Pool<Counted> pool;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        const auto loan = pool.borrow([] { return Counted{}; });
        ++loan->number;  // the thread sanitizer would see another one here
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::function<int(int)> sum_of = [&](int loans) {
    if (loans == 0) return 0;
    const auto loan = pool.borrow([] { return Counted{}; });
    return loan->number + sum_of(loans - 1);
  };
  CHECK(sum_of(4) == 4000);
}
