// Kernels that are right run; each mistake that a kernel can make is found, with the thread and the
// line that make it. The mistakes are those of real kernels: mutants of one that is right.

#include <foredraft/backend/cuda/host_grid.hpp>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Nothing {
  static constexpr const char* kName = "nothing";
  static constexpr int kThreads = 32;
  struct Args {};
  static void run(HostThread&, const Args&) {}
};

/// Sums of rows, by a block each: what most kernels are made of.
enum class Mutant {
  kNone,
  kNoBarrier,        // partial sums are read while other warps write them
  kNoSecondBarrier,  // and overwritten while other warps read them
  kTail,             // one column too many
  kBarrierInBranch,  // not all warps come to the barrier
  kShuffleInBranch,  // not all lanes come to the shuffle
  kLeaves,           // a thread ends before a barrier
  kSharedTail,       // one partial sum too many
  kUninitialised,    // a partial sum that nobody wrote
  kTooMuchShared,    // more than the kernel was started with
  kBlocksCollide,    // all blocks write one place
  kMisaligned,       // four floats where they do not begin at 16 bytes
  kOtherLine,        // the barrier of another branch
  kUnwritten,        // an output as input
};

template <Mutant kMutant>
struct RowSums {
  static constexpr const char* kName = "row_sums";
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarp;
  struct Args {
    const float* x;  // [rows, n]
    int n;
    float* sums;  // [rows, 2], the second of them of twice the values
  };

  template <typename T>
  static void run(T& t, const Args& a) {
    using enum Mutant;
    float* const partial = t.template shared<float>(kMutant == kTooMuchShared ? 5 : kWarps);
    const float* const row = a.x + t.block_x() * a.n;
    if (kMutant == kLeaves && t.thread() == 77) return;
    if (kMutant == kUnwritten) (void)t.load(a.sums);
    if (kMutant == kMisaligned) (void)t.load(reinterpret_cast<const Four*>(row + 1));
    for (int pass = 0; pass < 2; ++pass) {
      float sum = 0;
      for (int i = t.thread(); i < a.n + (kMutant == kTail); i += kThreads) {
        sum = t.fma(t.load(row + i), static_cast<float>(pass + 1), sum);
      }
      if (kMutant != kShuffleInBranch || t.thread() != 40) sum = t.warp_sum(sum);
      const bool wrong = kMutant == kUninitialised && warp_of(t) == 3;
      if (lane_of(t) == 0 && !wrong) {
        t.store(partial + warp_of(t) + (kMutant == kSharedTail), sum);
      }
      if (kMutant == kBarrierInBranch) {
        if (warp_of(t) != 2) t.sync();
      } else if (kMutant == kOtherLine && warp_of(t) == 1) {
        t.sync();
      } else if (kMutant != kNoBarrier) {
        t.sync();
      }
      if (t.thread() == pass) {
        float all = 0;
        for (int warp = 0; warp < kWarps; ++warp) all = t.add(all, t.load(partial + warp));
        t.store(a.sums + (kMutant == kBlocksCollide ? 0 : 2 * t.block_x()) + pass, all);
      }
      if (kMutant != kNoSecondBarrier) t.sync();
    }
  }
};

constexpr int kRows = 3;

struct Device {
  CheckedMemory memory;
  HostGrid grid{memory};

  template <typename V>
  V* upload(const std::vector<V>& values) {
    const std::size_t bytes = values.size() * sizeof(V);
    std::byte* const to = memory.allocate(bytes);
    std::memcpy(to, values.data(), bytes);
    memory.find(to, bytes)->written_by_host(0, bytes);
    return reinterpret_cast<V*>(to);
  }
  template <typename V>
  V* room(std::size_t n) {
    return reinterpret_cast<V*>(memory.allocate(n * sizeof(V)));
  }
};

/// What is found in a mutant; empty: nothing.
template <Mutant kMutant>
std::string found(int n = 131) {
  Device device;
  std::vector<float> x(fd::idx(kRows * n));
  std::iota(x.begin(), x.end(), 1.0f);
  float* const sums = device.room<float>(2 * kRows);
  try {
    device.grid.run<RowSums<kMutant>>({kRows}, shared_bytes<float>(4), {device.upload(x), n, sums});
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kDevice);
    CHECK(error.found().find("a fault of kernel row_sums: thread ") == 0);
    const bool line = error.found().find("(host_grid.test.cpp:") != std::string::npos;
    CHECK((line || error.found().find("(device_ops.hpp:") != std::string::npos));
    return error.found();
  }
  for (int row = 0; row < kRows; ++row) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += x[fd::idx(row * n + i)];
    CHECK(sums[2 * row] == expected);
    CHECK(sums[2 * row + 1] == 2 * expected);
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  CAPTURE(text, part);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a kernel without a mistake runs, at any number of columns") {
  for (const int n : {1, 31, 32, 127, 128, 131, 500}) CHECK(found<Mutant::kNone>(n).empty());
}

TEST_CASE("races") {
  // Who comes first finds nothing there; had it been written before, it would be a race.
  CHECK(contains(found<Mutant::kNoBarrier>(), "thread 0 of block (0, 0, 0) reads memory"));
  CHECK(contains(found<Mutant::kNoSecondBarrier>(), "writes what another thread reads: a race"));
  CHECK(contains(found<Mutant::kBlocksCollide>(), "block (1, 0, 0) writes what another thread"));
}

TEST_CASE("access outside of what there is") {
  CHECK(contains(found<Mutant::kTail>(), "block (2, 0, 0) leaves the memory"));
  CHECK(contains(found<Mutant::kSharedTail>(), "thread 96 of block (0, 0, 0) leaves the memory"));
  CHECK(contains(found<Mutant::kMisaligned>(), "is not aligned, 16 bytes at 0x"));
  CHECK(contains(found<Mutant::kTooMuchShared>(), "takes 32 bytes of shared memory"));
}

TEST_CASE("memory that nobody has written") {
  CHECK(contains(found<Mutant::kUninitialised>(), "nobody has written, 4 bytes at 0x"));
  CHECK(contains(found<Mutant::kUnwritten>(), "thread 0 of block (0, 0, 0) reads memory"));
}

TEST_CASE("barriers and shuffles that a thread never reaches") {
  CHECK(
      contains(found<Mutant::kLeaves>(), "shuffle that thread 77 never reaches, which has ended"));
  CHECK(contains(found<Mutant::kShuffleInBranch>(), "that thread 40 never reaches"));
  CHECK(contains(found<Mutant::kBarrierInBranch>(), "waits elsewhere than thread 0"));
  CHECK(contains(found<Mutant::kOtherLine>(), "thread 32 of block (0, 0, 0) waits elsewhere"));
}

namespace {

/// Copies that a thread does not wait for, through a ring of two places.
enum class CopyMutant {
  kNone,
  kNotWaited,   // read while they are on their way
  kNoGroup,     // waited for, but in no group
  kTooFew,      // one group fewer than it takes
  kTooEarly,    // another thread's copy without a barrier
  kToGlobal,    // to memory that is not shared
  kOverwrites,  // over what another thread has read behind the same barrier
};

template <CopyMutant kMutant>
struct CopyRows {
  static constexpr const char* kName = "copy_rows";
  static constexpr int kThreads = 32;
  struct Args {
    const Words* in;  // [n, 32]
    int n;
    Words* out;  // [n, 32]
  };

  template <typename T>
  static void run(T& t, const Args& a) {
    using enum CopyMutant;
    Words* const ring = t.template shared<Words>(2 * kWarp);
    const auto request = [&](int i) {
      if (i < a.n) {
        Words* const to = kMutant == kToGlobal ? a.out : ring + i % 2 * kWarp;
        t.copy_async(to + lane_of(t), a.in + i * kWarp + lane_of(t));
      }
      if (kMutant != kNoGroup) t.commit_copies();
    };
    request(0);
    for (int i = 0; i < a.n; ++i) {
      request(i + 1);
      if (kMutant == kTooFew) {
        t.template wait_copies<2>();
      } else if (kMutant != kNotWaited) {
        t.template wait_copies<1>();
      }
      const int lane = kMutant == kTooEarly     ? 31 - lane_of(t)
                       : kMutant == kOverwrites ? (lane_of(t) + 1) % kWarp
                                                : lane_of(t);
      if (kMutant == kOverwrites) t.sync();
      t.store(a.out + i * kWarp + lane, t.load(ring + i % 2 * kWarp + lane));
    }
  }
};

template <CopyMutant kMutant>
std::string found_in_copies() {
  Device device;
  std::vector<Words> in(5 * 32);
  for (std::uint32_t i = 0; i < in.size(); ++i) in[i] = {{i, i + 1, i + 2, i * i}};
  Words* const out = device.room<Words>(in.size());
  try {
    device.grid.run<CopyRows<kMutant>>({}, shared_bytes<Words>(2 * kWarp),
                                       {device.upload(in), 5, out});
  } catch (const fd::Error& error) {
    return error.found();
  }
  CHECK(std::memcmp(out, in.data(), in.size() * sizeof(Words)) == 0);
  return "";
}

}  // namespace

TEST_CASE("copies that a thread does not wait for") {
  using enum CopyMutant;
  CHECK(found_in_copies<kNone>().empty());
  for (const std::string& found : {found_in_copies<kNotWaited>(), found_in_copies<kNoGroup>(),
                                   found_in_copies<kTooFew>(), found_in_copies<kTooEarly>()}) {
    CHECK(contains(found, "reads memory that nobody has written"));
  }
  CHECK(contains(found_in_copies<kToGlobal>(), "copies to a place outside of shared memory"));
  CHECK(contains(found_in_copies<kOverwrites>(), "writes what another thread reads: a race"));
}

namespace {

/// y = w * x, where x is what an earlier kernel wrote.
enum class WaitMutant {
  kNone,
  kReadsTooEarly,
  kWritesTooEarly,
  kNeverWaits,
  kLeavesEarly,
};

template <WaitMutant kMutant>
struct Weigh {
  static constexpr const char* kName = "weigh";
  static constexpr int kThreads = 32;
  static constexpr bool kLoadsAhead = true;
  struct Args {
    const float* w;
    const float* x;
    float* y;
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    using enum WaitMutant;
    float* const kept = t.template shared<float>(kThreads);
    t.store(kept + t.thread(), t.load(a.w + t.thread()));
    if (kMutant == kLeavesEarly && t.thread() == 31) return;
    if (kMutant == kReadsTooEarly) (void)t.load(a.x + t.thread());
    if (kMutant == kWritesTooEarly) t.store(a.y + t.thread(), 0.0f);
    if (kMutant != kNeverWaits) t.wait_for_kernels();
    const float w = t.load(kept + t.thread());
    t.store(a.y + t.thread(), t.mul(w, t.load(a.x + t.thread())));
  }
};

struct WriteOnes {
  static constexpr const char* kName = "write_ones";
  static constexpr int kThreads = 32;
  struct Args {
    float* x;
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    t.store(a.x + t.thread(), 1.0f);
  }
};

template <WaitMutant kMutant>
std::string found_in_waiting() {
  Device device;
  std::vector<float> w(32);
  std::iota(w.begin(), w.end(), 1.0f);
  float* const x = device.room<float>(32);
  float* const y = device.room<float>(32);
  device.grid.run<WriteOnes>({}, 0, {x});
  try {
    device.grid.run<Weigh<kMutant>>({}, shared_bytes<float>(32), {device.upload(w), x, y});
  } catch (const fd::Error& error) {
    return error.found();
  }
  CHECK(std::memcmp(y, w.data(), 32 * sizeof(float)) == 0);
  return "";
}

}  // namespace

TEST_CASE("a kernel that begins before others have ended") {
  using enum WaitMutant;
  CHECK(found_in_waiting<kNone>().empty());
  const char* const reads = "reads what a kernel wrote before it has waited for";
  CHECK(contains(found_in_waiting<kReadsTooEarly>(), reads));
  CHECK(contains(found_in_waiting<kNeverWaits>(), reads));
  CHECK(contains(found_in_waiting<kWritesTooEarly>(), "writes before it has waited for"));
  CHECK(contains(found_in_waiting<kLeavesEarly>(),
                 "thread 31 of block (0, 0, 0) ends before it has waited"));
}

TEST_CASE("what a GPU would refuse to start") {
  CheckedMemory memory;
  HostGrid grid(memory);
  CHECK_NOTHROW(grid.run<Nothing>({2, 1, 1}, 99 << 10, {}));
  CHECK(code_of([&] { grid.run<Nothing>({0, 1, 1}, 0, {}); }) == fd::ErrorCode::kDevice);
  CHECK(code_of([&] { grid.run<Nothing>({1, 65536, 1}, 0, {}); }) == fd::ErrorCode::kDevice);
  CHECK(code_of([&] { grid.run<Nothing>({1, 1, 65536}, 0, {}); }) == fd::ErrorCode::kDevice);
  CHECK(code_of([&] { grid.run<Nothing>({}, (99 << 10) + 1, {}); }) == fd::ErrorCode::kDevice);
}

TEST_CASE("after a fault the grid runs on") {
  Device device;
  std::vector<float> x(5, 1.0f);
  float* const sums = device.room<float>(2);
  const float* const input = device.upload(x);
  const int shared = shared_bytes<float>(4);
  CHECK_THROWS_AS(device.grid.run<RowSums<Mutant::kLeaves>>({1}, shared, {input, 5, sums}),
                  fd::Error);
  const std::size_t before = device.memory.pieces();
  device.grid.run<RowSums<Mutant::kNone>>({1}, shared, {input, 5, sums});
  CHECK(sums[0] == 5.0f);
  CHECK(device.memory.pieces() == before);  // shared memory is given back
}

namespace {

/// Every thread says where it is, and what its neighbours say.
struct Neighbours {
  static constexpr const char* kName = "neighbours";
  static constexpr int kThreads = 64;
  struct Args {
    int* out;  // [blocks, threads, 4]
    int* count;
  };
  template <typename T>
  static void run(T& t, const Args& a) {
    const int block = t.block_x() + 2 * (t.block_y() + 3 * t.block_z());
    int* const mine = a.out + 4 * (block * kThreads + t.thread());
    t.store(mine, block);
    t.store(mine + 1, static_cast<int>(t.shuffle_xor(static_cast<double>(t.thread()), 5)));
    t.store(mine + 2, t.shuffle(t.thread(), 3));
    t.store(mine + 3, static_cast<int>(t.ballot(t.thread() % 3 == 0)));
    t.atomic_add(a.count, 2);
  }
};

}  // namespace

TEST_CASE("indices, shuffles, votes and atomics") {
  Device device;
  int* const out = device.room<int>(4 * 12 * 64);
  int* const count = device.upload(std::vector<int>{1});
  device.grid.run<Neighbours>({2, 3, 2}, 0, {out, count});
  CHECK(*count == 1 + 2 * 12 * 64);
  int wrong = 0;
  for (int block = 0; block < 12; ++block) {
    for (int thread = 0; thread < 64; ++thread) {
      const int* const mine = out + 4 * (block * 64 + thread);
      const int warp = thread / 32 * 32;
      std::uint32_t votes = 0;
      for (int lane = 0; lane < 32; ++lane) {
        if ((warp + lane) % 3 == 0) votes |= 1u << lane;
      }
      wrong += mine[0] != block || mine[1] != (thread ^ 5) || mine[2] != warp + 3 ||
               static_cast<std::uint32_t>(mine[3]) != votes;
    }
  }
  CHECK(wrong == 0);
}
