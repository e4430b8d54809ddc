#include <foredraft/backend/cuda/memory_pool.hpp>

#include <cstddef>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

/// Counts what is asked of it, and has so many bytes in all.
struct Counted {
  struct State {
    std::size_t left = 1 << 20;
    int allocations = 0;
    std::set<std::byte*> out = {};
    std::vector<std::size_t> sizes = {};
  };
  State* state = nullptr;

  std::byte* allocate(std::size_t bytes) const {
    if (bytes > state->left) return nullptr;
    state->left -= bytes;
    ++state->allocations;
    auto* const place = new std::byte[bytes + sizeof(std::size_t)];
    *reinterpret_cast<std::size_t*>(place) = bytes;
    state->out.insert(place);
    return place;
  }
  void release(std::byte* place) const noexcept {
    state->left += *reinterpret_cast<std::size_t*>(place);
    state->out.erase(place);
    delete[] place;
  }
};
using Pool = fd::cuda::MemoryPool<Counted>;

}  // namespace

TEST_CASE("sizes are rounded up by less than an eighth, or to 512") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{512}}) {
    CHECK(Pool::rounded(bytes) == 512);
  }
  std::size_t before = 0;
  for (std::size_t bytes = 513; bytes < 1000000; bytes += bytes / 37 + 1) {
    const std::size_t rounded = Pool::rounded(bytes);
    CHECK(rounded >= bytes);
    CHECK(rounded - bytes < std::max<std::size_t>(512, bytes / 8 + 1));
    CHECK(rounded >= before);
    CHECK(Pool::rounded(rounded) == rounded);
    before = rounded;
  }
}

TEST_CASE("what is given back serves the next of its size") {
  Counted::State state;
  {
    Pool pool{Counted{&state}};
    std::byte* const a = pool.allocate(1000);
    std::byte* const b = pool.allocate(1000);
    CHECK(a != b);
    pool.release(a, 1000);
    CHECK(pool.kept_bytes() == Pool::rounded(1000));
    CHECK(pool.allocate(1020) == a);  // the same step
    CHECK(pool.kept_bytes() == 0);
    CHECK(pool.allocate(5000) != b);
    CHECK(state.allocations == 3);
    pool.release(a, 1020);
    pool.release(b, 1000);
    pool.trim();
    CHECK(state.out.size() == 1);
    pool.release(*state.out.begin(), 5000);
  }
  CHECK(state.out.empty());
}

TEST_CASE("memory that others left is given up before there is none") {
  Counted::State state;
  Pool pool{Counted{&state}};
  std::byte* const large = pool.allocate(700000);
  CHECK(code_of([&] { (void)pool.allocate(700000); }) == fd::ErrorCode::kOutOfMemory);
  pool.release(large, 700000);
  std::byte* const other = pool.allocate(900000);  // what was kept has to go first
  CHECK(pool.kept_bytes() == 0);
  // A failed request leaves the pool as it was.
  CHECK(code_of([&] { (void)pool.allocate(1 << 21); }) == fd::ErrorCode::kOutOfMemory);
  pool.release(other, 900000);
  CHECK(pool.allocate(900000) == other);
  pool.release(other, 900000);
}
