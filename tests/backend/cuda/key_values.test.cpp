#include <foredraft/backend/cuda/key_values.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <foredraft/backend/row_ring.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// What store_element() writes, and rows of positions.
template <typename S>
struct RoundTrip {
  static constexpr const char* kName = "round_trip";
  static constexpr int kThreads = 32;
  struct Args {
    float* values;  // [32], doubled
    S* half;        // [32]
    RowPlace row;
    const int* nodes;
    int* places;  // [32]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int i = t.thread();
    store_element(t, a.half, i, t.load(a.values + i));
    t.sync();
    store_element(t, a.values, i, 2 * t.load(a.values + i));
    if (i < a.row.visible) t.store(a.places + i, storage_row(t, a.row, a.nodes, i));
  }
};

/// The chunks of a row, however it lies.
struct LoadApart {
  static constexpr const char* kName = "load_apart";
  static constexpr int kThreads = 32;
  struct Args {
    StoredRows rows;
    int d_head;
    int place;
    Words* chunks;  // [rows.chunks()] written
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    if (t.thread() >= a.rows.chunks(a.d_head)) return;
    const auto* const row = a.rows.row<const std::byte>(0, a.place);
    t.store(a.chunks + t.thread(), load_apart(t, a.rows, row, t.thread()));
  }
};

/// What an element of each format says of itself.
struct NameFormats {
  static constexpr const char* kName = "name_formats";
  static constexpr int kThreads = 32;
  struct Args {
    int* formats;  // [32], the first of them written
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    if (t.thread() >= fd::kRowFormats) return;
    with_element_of(static_cast<fd::RowFormat>(t.thread()), [&]<typename S>(fd::Element<S>) {
      t.store(a.formats + t.thread(), static_cast<int>(fd::kFormatOf<S>));
    });
  }
};

/// Rows of two blocks, stored and loaded again.
struct Quantize {
  static constexpr const char* kName = "quantize";
  static constexpr int kThreads = 64;
  struct Args {
    const float* values;  // [rows, 64]
    fd::q8_0* row;        // [rows, 2]
    float* loaded;        // [rows, 64]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int i = t.thread();
    const int first = t.block_x() * kThreads;
    fd::q8_0* const row = a.row + 2 * t.block_x();
    store_element(t, row, i, t.load(a.values + first + i));
    t.sync();
    const StoredRows rows{nullptr, 0, 2 * sizeof(fd::q8_0), fd::RowFormat::kQ8_0};
    const Words chunk = load_apart(t, rows, reinterpret_cast<const std::byte*>(row), i / 8);
    t.store(a.loaded + first + i, four_of<fd::q8_0>(t, chunk, i % 8 / 4).v[i % 4]);
  }
};

}  // namespace

TEST_CASE("a warp makes the block in q8_0 that the host makes of the same floats") {
  std::vector<float> values;
  const auto add = [&](float scale, unsigned seed) {
    for (const float x : mini::normals(64, seed)) values.push_back(x * scale);
  };
  for (int e = -140; e < 128; e += 2) add(std::ldexp(1.0f, e), static_cast<unsigned>(e + 200));
  for (unsigned seed = 0; seed < 150; ++seed) add(0x1p-20f, seed);  // scales that round far
  for (int i = 0; i < 64; ++i) values.push_back(0.0f);
  // Halfway between two codes of scale 1, in either half a warp; then what a block cannot hold.
  for (int i = 0; i < 64; ++i)
    values.push_back(i == 0 ? 127.0f : static_cast<float>(i - 32) + 0.5f);
  for (const float extreme : {INFINITY, -INFINITY, NAN, 127.0f * 65504.0f, -127.01f * 65504.0f}) {
    for (int i = 0; i < 64; ++i) values.push_back(i == 37 ? extreme : static_cast<float>(i));
  }
  const int n_rows = static_cast<int>(values.size() / 64);
  const on_device::Array<float> x(values), loaded(values.size());
  const on_device::Array<fd::q8_0> row(values.size() / 32);
  on_device::launch<Quantize>({n_rows}, 0, {x.data(), row.data(), loaded.data()});
  const std::vector<fd::q8_0> blocks = row.read();
  const std::vector<float> found = loaded.read();
  int wrong = 0, not_numbers = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const fd::q8_0 expected(values.data() + 32 * i);
    wrong += std::memcmp(&blocks[i], &expected, sizeof expected) != 0;
    not_numbers += std::isnan(static_cast<float>(expected.scale));
    if (std::isnan(expected[0])) continue;
    for (int d = 0; d < 32; ++d) wrong += found[32 * i + fd::idx(d)] != expected[d];
  }
  CHECK(wrong == 0);
  CHECK(not_numbers > 4);
}

TEST_CASE("a row of a ring has the place that the storage gives it") {
  for (const auto& [window, sinks] : {std::pair{0, 4}, {10, 0}, {10, 40}}) {
    const fd::RowRing storage = fd::RowRing::of(window, sinks, 20, 1000);
    const Ring ring{storage.ring, storage.pinned};
    for (int row = 0; row < 300; ++row) REQUIRE(ring.place(row) == storage.place(row));
  }
  std::byte bytes[1000];
  const StoredRows rows{bytes, 250, 68, fd::RowFormat::kQ8_0};
  CHECK(reinterpret_cast<std::byte*>(rows.row<fd::q8_0>(2, 3)) == bytes + 704);
}

TEST_CASE("chunks of a row that lie anywhere are those of its bytes, and zeros behind them") {
  for (const auto& [format, d_head, n_chunks] : {std::tuple{fd::RowFormat::kF32, 7, 2},
                                                 {fd::RowFormat::kF16, 7, 1},
                                                 {fd::RowFormat::kBF16, 36, 5},
                                                 {fd::RowFormat::kF16, 64, 8},
                                                 {fd::RowFormat::kF32, 12, 3}}) {
    const auto row_bytes = static_cast<int>(fd::row_bytes(format, d_head));
    std::vector<std::byte> bytes(3 * fd::idx(row_bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
    const on_device::Array<std::byte> data(bytes);
    const on_device::Array<Words> chunks(fd::idx(n_chunks));
    const StoredRows rows{data.data(), 0, row_bytes, format};
    CHECK(rows.chunks(d_head) == n_chunks);
    CHECK(rows.aligned() == (row_bytes % 16 == 0));
    on_device::launch<LoadApart>({}, 0, {rows, d_head, 1, chunks.data()});
    std::vector<Words> expected(fd::idx(n_chunks));
    std::memcpy(expected.data(), bytes.data() + row_bytes, fd::idx(row_bytes));
    CHECK(std::memcmp(chunks.read().data(), expected.data(), expected.size() * sizeof(Words)) == 0);
  }
  alignas(16) std::byte bytes[64] = {};
  CHECK(StoredRows{bytes, 0, 272, fd::RowFormat::kF16}.aligned());
  CHECK_FALSE(StoredRows{bytes, 0, 272, fd::RowFormat::kQ8_0}.aligned());
  CHECK_FALSE(StoredRows{bytes + 8, 0, 32, fd::RowFormat::kF16}.aligned());
  CHECK(StoredRows{bytes, 0, 272, fd::RowFormat::kQ8_0}.chunks(256) == 32);
}

TEST_CASE("kernels know the elements of every format") {
  const on_device::Array<int> formats(std::vector<int>(32, -1));
  on_device::launch<NameFormats>({}, 0, {formats.data()});
  const std::vector<int> found = formats.read();
  for (int i = 0; i < fd::kRowFormats; ++i) CHECK(found[fd::idx(i)] == i);
}

TEST_CASE("elements in bf16 are rounded as the host rounds them") {
  // Ties to both sides, what becomes infinite, and what lies between.
  std::vector<float> values{0x1.01p0f,   0x1.03p0f,   -0x1.01p0f, 0x1.010002p0f, 0x1.00fffep0f,
                            0x1.fep127f, 0x1.ffp127f, 0x1p-133f,  0.0f,          -0.0f};
  while (values.size() < 32)
    values.push_back(std::ldexp(1.2345678f, static_cast<int>(values.size()) - 20));
  const on_device::Array<float> x(values);
  const on_device::Array<fd::bf16> stored(32);
  on_device::launch<RoundTrip<fd::bf16>>({}, 0, {x.data(), stored.data(), {}, nullptr, nullptr});
  const std::vector<fd::bf16> rounded = stored.read();
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(rounded[i].bits == fd::float_to_bfloat16(values[i]));
  }
}

TEST_CASE("elements are rounded as the host rounds them; positions lead to rows") {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(std::ldexp(1.2345678f, i - 20));
  const on_device::Array<float> x(values);
  const on_device::Array<fd::f16> half(32);
  const on_device::Array<int> nodes(std::vector<int>{9, 9, 1, 4, 7}),
      places(std::vector<int>(32, -1));
  // Three committed positions, then the nodes 1, 4 and 7.
  const RowPlace row{.row = 0, .sequence = 0, .own_row = 10, .size = 3, .visible = 6, .path = 2};
  on_device::launch<RoundTrip<fd::f16>>({}, 0,
                                        {x.data(), half.data(), row, nodes.data(), places.data()});
  const std::vector<fd::f16> rounded = half.read();
  const std::vector<float> doubled = x.read();
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(rounded[i].bits == fd::float_to_half(values[i]));
    CHECK(doubled[i] == 2 * values[i]);
  }
  const std::vector<int> found = places.read();
  CHECK(std::vector<int>(found.begin(), found.begin() + 7) ==
        std::vector<int>{0, 1, 2, 4, 7, 10, -1});
  RowPlace chain = row;
  chain.path = -1;
  on_device::launch<RoundTrip<fd::f16>>(
      {}, 0, {x.data(), half.data(), chain, nodes.data(), places.data()});
  CHECK(places.read()[5] == 5);
}

TEST_CASE("moves follow each other, in every part and head") {
  constexpr int kRows = 10, kPlaces = 6;
  // Two heads of three floats, then a head of two whose rows are a ring of four behind two.
  const Ring ring{4, 2};
  const std::size_t of_first = 2 * kRows * 3, of_second = kPlaces * 2;
  std::vector<float> first(of_first), second(of_second);
  std::iota(first.begin(), first.end(), 0.0f);
  std::iota(second.begin(), second.end(), 1000.0f);
  const on_device::Array<float> a(first), b(second);
  const auto bytes_of = [](const on_device::Array<float>& array) {
    return reinterpret_cast<std::byte*>(array.data());
  };
  const on_device::Array<MoveRows::Part> parts(std::vector<MoveRows::Part>{
      {bytes_of(a), kRows * 3 * sizeof(float), 12, 0, {}}, {bytes_of(b), 0, 8, 12, ring}});
  const MoveRows::Args args{.parts = parts.data(),
                            .n_parts = 2,
                            .n_columns = 16,
                            .n_moves = 3,
                            .from = {9, 7, 1},
                            .to = {1, 8, 0}};
  on_device::launch<MoveRows>(MoveRows::grid(16), 0, args);
  const int from[] = {5, 3, 1}, to[] = {1, 4, 0};  // places in the ring
  const auto move = [](std::vector<float>& rows, int begin, int d_head, int source, int target) {
    std::copy_n(rows.begin() + begin + source * d_head, d_head,
                rows.begin() + begin + target * d_head);
  };
  for (int i = 0; i < 3; ++i) {
    move(first, 0, 3, args.from[i], args.to[i]);
    move(first, kRows * 3, 3, args.from[i], args.to[i]);
    move(second, 0, 2, from[i], to[i]);
  }
  CHECK(a.read() == first);
  CHECK(b.read() == second);
}

TEST_CASE("a block in q8_0 moves as a whole") {
  const std::vector<float> values = mini::normals(4 * 64, 1);
  std::vector<fd::q8_0> blocks;
  for (std::size_t i = 0; i < 8; ++i) blocks.emplace_back(values.data() + 32 * i);
  const on_device::Array<fd::q8_0> rows(blocks);
  const on_device::Array<MoveRows::Part> parts(std::vector<MoveRows::Part>{
      {reinterpret_cast<std::byte*>(rows.data()), 0, 2 * sizeof(fd::q8_0), 0, {}}});
  const int columns = sizeof(fd::q8_0);  // two blocks, two bytes each
  on_device::launch<MoveRows>(MoveRows::grid(columns), 0, {parts.data(), 1, columns, 1, {3}, {1}});
  std::copy_n(blocks.begin() + 6, 2, blocks.begin() + 2);
  const std::vector<fd::q8_0> found = rows.read();
  CHECK(std::memcmp(found.data(), blocks.data(), blocks.size() * sizeof(fd::q8_0)) == 0);
}
