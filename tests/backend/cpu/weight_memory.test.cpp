#include <foredraft/backend/cpu/weight_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include <foredraft/core/index.hpp>

#include "support/catch.hpp"
#include "support/sanitizers.hpp"

using foredraft::cpu::WeightMemory;

namespace {

bool aligned(const std::byte* p, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

}  // namespace

TEST_CASE("small pieces share a slab and do not overlap") {
  WeightMemory memory(1 << 20);
  std::vector<WeightMemory::Piece> pieces;
  for (int i = 0; i < 40; ++i) {
    const auto bytes = foredraft::idx(1 + i * 1777);
    pieces.push_back(memory.take(bytes));
    REQUIRE(pieces.back().data != nullptr);
    CHECK(aligned(pieces.back().data, foredraft::kLine));
    std::memset(pieces.back().data, i, bytes);
  }
  for (int i = 0; i < 40; ++i) {
    const std::byte* data = pieces[foredraft::idx(i)].data;
    for (int k = 0; k < 1 + i * 1777; ++k) REQUIRE(data[k] == static_cast<std::byte>(i));
  }
  // 40 pieces of 35 KB on average need two slabs.
  CHECK(pieces[0].keeper == pieces[5].keeper);
  CHECK(pieces[0].keeper != pieces[39].keeper);
}

TEST_CASE("slabs of huge pages begin at one") {
  WeightMemory memory;
  const auto first = memory.take(100);
  CHECK(aligned(first.data, foredraft::kHugePage));
  const auto large = memory.take(WeightMemory::kSlab + 1);  // has one for itself
  CHECK(aligned(large.data, foredraft::kHugePage));
  CHECK(large.keeper != first.keeper);
  CHECK(memory.take(100).data == first.data + 128);  // goes on where it was
}

TEST_CASE("a piece outlives the memory it was taken from, and a slab does not outlive its pieces") {
  WeightMemory::Piece piece;
  {
    WeightMemory memory(4096);
    piece = memory.take(1000);
  }
  std::memset(piece.data, 1, 1000);  // the address sanitizer watches
  const std::weak_ptr<const void> slab = piece.keeper;
  CHECK(!slab.expired());
  piece = {};
  CHECK(slab.expired());
}

#if !defined(FOREDRAFT_UNDER_ASAN)  // which ends the program instead
TEST_CASE("no room is said, and leaves what is there usable") {
  WeightMemory memory(4096);
  const auto before = memory.take(100);
  CHECK(memory.take(std::numeric_limits<std::size_t>::max() / 2).data == nullptr);
  CHECK(memory.take(100).data == before.data + 128);
}
#endif

TEST_CASE("threads get pieces of their own") {
  WeightMemory memory(1 << 16);
  std::vector<std::vector<WeightMemory::Piece>> pieces(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        auto piece = memory.take(500);
        std::memset(piece.data, t, 500);
        pieces[foredraft::idx(t)].push_back(std::move(piece));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) {
    for (const auto& piece : pieces[foredraft::idx(t)]) {
      for (int k = 0; k < 500; ++k) REQUIRE(piece.data[k] == static_cast<std::byte>(t));
    }
  }
}
