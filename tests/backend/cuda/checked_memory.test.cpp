#include <foredraft/backend/cuda/checked_memory.hpp>

#include <cstdint>

#include "support/catch.hpp"

namespace fd = foredraft;
using fd::cuda::Access;
using fd::cuda::CheckedMemory;
using fd::cuda::CheckedPiece;
using fd::cuda::Moment;

namespace {

constexpr Access kRead = Access::kRead, kWrite = Access::kWrite, kUpdate = Access::kUpdate;

/// Two accesses to one word, written by the host before; whether the second is refused.
bool refused(Access first, Moment at_first, Access second, Moment at_second) {
  CheckedPiece piece(4);
  piece.written_by_host(0, 4);
  CHECK(piece.access(first, 0, 4, at_first) == nullptr);
  return piece.access(second, 0, 4, at_second) != nullptr;
}

}  // namespace

TEST_CASE("accesses of two threads are in order behind a barrier only") {
  const Moment a{.kernel = 5, .block = 7, .now = 8, .thread = 1};
  const Moment b{.kernel = 5, .block = 7, .now = 8, .thread = 2};
  const Moment later{.kernel = 5, .block = 7, .now = 9, .thread = 2};
  const Moment other_block{.kernel = 5, .block = 10, .now = 10, .thread = 1};
  const Moment next_kernel{.kernel = 11, .block = 12, .now = 12, .thread = 2};
  for (const auto& [first, second] : {std::pair{kRead, kWrite},
                                      {kWrite, kRead},
                                      {kWrite, kWrite},
                                      {kUpdate, kRead},
                                      {kUpdate, kWrite},
                                      {kRead, kUpdate},
                                      {kWrite, kUpdate}}) {
    CAPTURE(int(first), int(second));
    CHECK(refused(first, a, second, b));
    CHECK(refused(first, a, second, other_block));
    CHECK(!refused(first, a, second, later));
    CHECK(!refused(first, a, second, next_kernel));
    if (first != kUpdate) CHECK(!refused(first, a, second, a));
  }
  for (const Moment& m : {b, other_block, later, next_kernel}) {
    CHECK(!refused(kRead, a, kRead, m));
    CHECK(!refused(kUpdate, a, kUpdate, m));
  }
}

TEST_CASE("a reader is not forgotten because others read after it") {
  CheckedPiece piece(2);
  piece.written_by_host(0, 2);
  const Moment one{.kernel = 5, .block = 7, .now = 8, .thread = 1};
  const Moment two{.kernel = 5, .block = 7, .now = 8, .thread = 2};
  CHECK(piece.access(kRead, 0, 2, one) == nullptr);
  CHECK(piece.access(kRead, 0, 2, two) == nullptr);
  CHECK(piece.access(kWrite, 0, 2, two) != nullptr);
  const Moment other_block{.kernel = 5, .block = 9, .now = 9, .thread = 2};
  CHECK(piece.access(kRead, 0, 2, other_block) == nullptr);
  CHECK(piece.access(kWrite, 0, 2, other_block) != nullptr);
}

TEST_CASE("memory is read after it was written only") {
  CheckedPiece piece(8);
  const Moment m;
  CHECK(piece.access(kRead, 0, 4, m) != nullptr);
  CHECK(piece.access(kUpdate, 0, 4, m) != nullptr);
  piece.written_by_host(0, 4);
  CHECK(piece.access(kRead, 0, 4, m) == nullptr);
  CHECK(piece.access(kRead, 0, 8, m) != nullptr);  // half of it
  CHECK(piece.access(kWrite, 4, 4, m) == nullptr);
  CHECK(piece.access(kRead, 0, 8, m) == nullptr);
  piece.forget();
  CHECK(piece.access(kRead, 0, 4, m) != nullptr);
}

TEST_CASE("a place is found with its bounds") {
  CheckedMemory memory;
  std::byte* const a = memory.allocate(100);
  std::byte* const b = memory.allocate(0);
  std::byte* const c = memory.allocate(40);
  CHECK(memory.pieces() == 3);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
  for (int turn = 0; turn < 2; ++turn) {  // found, and then remembered
    CHECK(memory.find(a, 100)->data() == a);
    CHECK(memory.find(a + 96, 4)->data() == a);
    CHECK(memory.find(c, 40)->data() == c);
    CHECK(memory.find(a + 97, 4) == nullptr);
    CHECK(memory.find(a + 100, 1) == nullptr);
    CHECK(memory.find(a - 1, 4) == nullptr);
    CHECK(memory.find(b, 1) == nullptr);
    CHECK(memory.find(a, SIZE_MAX) == nullptr);
  }
  memory.release(a);
  CHECK(memory.find(a, 1) == nullptr);
  CHECK(memory.find(nullptr, 1) == nullptr);
}
