#include <foredraft/backend/cuda/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <tuple>
#include <vector>

#include <foredraft/backend/cuda/attended.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// The parts of a row, merged.
struct StoreMerged {
  static constexpr const char* kName = "store_merged";
  static constexpr int kThreads = 64;
  struct Args {
    AttendedArgs from;
    float* out;  // [rows of the pass, n_heads, d_head]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const RowPlace row = t.load(a.from.rows + t.block_x());
    const SeenParts seen = SeenParts::of(row, a.from.window, a.from.sinks[row.sequence]);
    const int n = a.from.n_heads * a.from.d_head;
    for (int k = 4 * t.thread(); k < n; k += 4 * kThreads) {
      const Four four = MergeParts::merged(t, a.from, seen, t.block_x(), k);
      for (int i = 0; i < 4 && k + i < n; ++i) {
        t.store(a.out + fd::idx(row.row) * fd::idx(n) + k + i, four.v[i]);
      }
    }
  }
};

constexpr int kKvHeads = 2, kPlaces = 610;

struct Case {
  std::vector<RowPlace> rows;  // row i is row i of the pass
  std::vector<int> nodes;
  int window;
  float softcap = 0.0f;
  int n_heads = 4;
  int sinks = 0;
  Ring ring = {};
  int d_head = 36;
  fd::RowFormats formats = {fd::RowFormat::kF32, fd::RowFormat::kF32};

  float scale() const { return 1.8f / std::sqrt(static_cast<float>(d_head)); }
};

struct Inputs {
  std::vector<float> q, k, v;
};

Inputs inputs(const Case& c) {
  return {mini::normals(c.rows.size() * fd::idx(c.n_heads * c.d_head), 1),
          mini::normals(fd::idx(kKvHeads * kPlaces * c.d_head), 2),
          mini::normals(fd::idx(kKvHeads * kPlaces * c.d_head), 3)};
}

/// Rows of keys or values as they are stored.
std::vector<std::byte> stored(const std::vector<float>& values, fd::RowFormat format, int d_head) {
  const std::size_t row_bytes = fd::row_bytes(format, d_head);
  std::vector<std::byte> bytes(values.size() / fd::idx(d_head) * row_bytes);
  for (std::size_t row = 0; row * fd::idx(d_head) < values.size(); ++row) {
    fd::store_row(format, std::span(values).subspan(row * fd::idx(d_head), fd::idx(d_head)),
                  bytes.data() + row * row_bytes);
  }
  return bytes;
}

/// What was stored.
std::vector<float> rounded(const std::vector<float>& values, fd::RowFormat format, int d_head) {
  const std::vector<std::byte> bytes = stored(values, format, d_head);
  std::vector<float> loaded(values.size());
  for (std::size_t row = 0; row * fd::idx(d_head) < values.size(); ++row) {
    fd::load_row(format, bytes.data() + row * fd::row_bytes(format, d_head),
                 std::span(loaded).subspan(row * fd::idx(d_head), fd::idx(d_head)));
  }
  return loaded;
}

/// Sequence 1 has for keys what sequence 0 has for values, if that is in one format, and the other way
/// round.
std::vector<float> attend(const Case& c, const Inputs& in) {
  int visible = 0;
  for (const RowPlace& row : c.rows) visible = std::max(visible, row.visible);
  const int n_rows = static_cast<int>(c.rows.size());
  const int n_parts = parts_of(visible, kPart);
  const on_device::Array<RowPlace> rows(c.rows);
  const on_device::Array<int> nodes(c.nodes);
  const on_device::Array<float> q(in.q), out(in.q.size());
  const on_device::Array<std::byte> k(stored(in.k, c.formats.k, c.d_head)),
      v(stored(in.v, c.formats.v, c.d_head));
  const on_device::Array<float> parts(fd::idx(n_rows * c.n_heads * n_parts * (2 + c.d_head)));
  AttendPartArgs args{.rows = rows.data(),
                      .n_rows = n_rows,
                      .nodes = nodes.data(),
                      .q = q.data(),
                      .n_heads = c.n_heads,
                      .heads_of_keys = c.n_heads / kKvHeads,
                      .d_head = c.d_head,
                      .scale = c.scale(),
                      .softcap = c.softcap,
                      .window = c.window,
                      .n_parts = n_parts,
                      .parts = parts.data(),
                      .layers = {}};
  const auto rows_at = [&](const on_device::Array<std::byte>& part, fd::RowFormat format) {
    const std::size_t row_bytes = fd::row_bytes(format, c.d_head);
    return StoredRows{part.data(), kPlaces * row_bytes, static_cast<int>(row_bytes), format};
  };
  const StoredRows keys = rows_at(k, c.formats.k), values = rows_at(v, c.formats.v);
  args.layers.of[0] = {keys, values, c.ring, c.sinks};
  args.layers.of[1] = {values, keys, c.ring, c.sinks};
  with_attend_part(args.heads_of_keys, [&]<typename K>() {
    on_device::launch<K>(K::grid(args), K::shared(c.d_head), args);
  });
  const AttendedArgs merge{rows.data(), n_rows,  c.n_heads,    c.d_head,
                           c.window,    n_parts, parts.data(), {c.sinks, c.sinks}};
  on_device::launch<StoreMerged>({n_rows}, 0, {merge, out.data()});
  return out.read();
}

/// Where the positions lie that a row sees, in their order.
std::vector<int> places_of(const Case& c, const RowPlace& row) {
  std::vector<int> places;
  const int first = first_visible(row.visible, c.window);
  for (int p = 0; p < row.visible; ++p) {
    if (p >= c.sinks && p < first) continue;
    const bool staged = p >= row.size && row.path >= 0;
    places.push_back(
        c.ring.place(staged ? row.size + c.nodes[fd::idx(row.path + p - row.size)] : p));
  }
  return places;
}

std::vector<double> expected(const Case& c, const Inputs& in, std::size_t row, std::size_t head) {
  const RowPlace& place = c.rows[row];
  const float* const q = in.q.data() + (row * fd::idx(c.n_heads) + head) * fd::idx(c.d_head);
  const std::vector<float>&k = place.sequence == 0 ? in.k : in.v,
        &v = place.sequence == 0 ? in.v : in.k;
  std::vector<double> sums(fd::idx(c.d_head)), weights;
  double all = 0;
  for (const int at : places_of(c, place)) {
    const std::size_t offset =
        (head / fd::idx(c.n_heads / kKvHeads) * kPlaces + fd::idx(at)) * fd::idx(c.d_head);
    double dot = 0;
    for (std::size_t d = 0; d < fd::idx(c.d_head); ++d) {
      dot += static_cast<double>(q[d]) * static_cast<double>(k[offset + d]);
    }
    double score = dot * static_cast<double>(c.scale());
    const double cap = static_cast<double>(c.softcap);
    if (cap != 0) score = cap * std::tanh(score / cap);
    const double weight = std::exp(score);
    all += weight;
    for (std::size_t d = 0; d < fd::idx(c.d_head); ++d)
      sums[d] += weight * static_cast<double>(v[offset + d]);
  }
  for (double& sum : sums) sum /= all;
  return sums;
}

/// The greatest difference from sums in double of what is stored.
double worst_of(const Case& c, Inputs in) {
  const std::vector<float> found = attend(c, in);
  in.k = rounded(in.k, c.formats.k, c.d_head);
  in.v = rounded(in.v, c.formats.v, c.d_head);
  double worst = 0;
  for (std::size_t row = 0; row < c.rows.size(); ++row) {
    for (std::size_t head = 0; head < fd::idx(c.n_heads); ++head) {
      const std::vector<double> exact = expected(c, in, row, head);
      for (std::size_t d = 0; d < exact.size(); ++d) {
        const double value =
            static_cast<double>(found[(row * fd::idx(c.n_heads) + head) * exact.size() + d]);
        worst = std::fmax(worst, std::abs(value - exact[d]));
      }
    }
  }
  return worst;
}

/// Of a row, in a launch of its own.
std::vector<float> alone(const Case& c, const Inputs& in, std::size_t row) {
  Case one = c;
  one.rows = {c.rows[row]};
  one.rows[0].row = 0;
  Inputs of_one = in;
  const auto size = static_cast<std::ptrdiff_t>(c.n_heads * c.d_head);
  const auto begin = in.q.begin() + static_cast<std::ptrdiff_t>(row) * size;
  of_one.q.assign(begin, begin + size);
  return attend(one, of_one);
}

/// Rows whose bits differ from those of a launch of their own.
int differing(const Case& c, const Inputs& in) {
  const std::vector<float> all = attend(c, in);
  int n = 0;
  for (std::size_t row = 0; row < c.rows.size(); ++row) {
    const std::vector<float> one = alone(c, in, row);
    n += std::memcmp(one.data(), all.data() + row * one.size(), one.size() * sizeof(float)) != 0;
  }
  return n;
}

/// Rows behind `size` positions of a sequence, one behind the other.
std::vector<RowPlace> chain(int n, int size, int sequence = 0, int first = 0) {
  std::vector<RowPlace> rows;
  for (int i = 0; i < n; ++i)
    rows.push_back({first + i, sequence, size + i, size, size + i + 1, -1});
  return rows;
}

}  // namespace

TEST_CASE("softmax over what a row sees, in one part and in several") {
  const std::vector<Case> cases{
      {{{0, 0, 0, 0, 1, -1}, {1, 0, 1, 0, 2, -1}}, {}, 0},
      {{{0, 0, 62, 60, 63, -1}, {1, 0, 63, 60, 64, -1}, {2, 0, 64, 60, 65, -1}}, {}, 0},
      // a tree behind 126 positions: paths cross the border of a part
      {{{0, 0, 126, 126, 127, 0}, {1, 0, 131, 126, 129, 1}, {2, 0, 140, 126, 130, 4}},
       {0, 0, 3, 5, 0, 3, 9, 14},
       0},
      {{{0, 0, 200, 200, 201, -1}}, {}, 0},
      // more parts than are merged at a time, and longer heads than threads
      {{{0, 0, 600, 600, 601, -1}}, {}, 0},
      {{{0, 0, 70, 70, 71, -1}, {1, 0, 71, 70, 72, -1}}, {}, 0, 0.0f, 4, 0, {}, 260},
      {{{0, 0, 80, 80, 81, -1}}, {}, 0, 0.7f},
      // windows that begin within a part, and at its border
      {{{0, 0, 100, 100, 101, -1}, {1, 0, 127, 100, 128, -1}}, {}, 64},
      {{{0, 0, 5, 5, 6, -1}, {1, 0, 199, 190, 200, -1}}, {}, 3},
      // heads of their own; some that a block computes in vain; more for one of keys than it has
      {{{0, 0, 70, 70, 71, -1}}, {}, 0, 0.0f, 2},
      {{{0, 0, 70, 70, 71, -1}, {1, 0, 71, 70, 72, -1}}, {}, 0, 0.0f, 6},
      {{{0, 0, 70, 70, 71, -1}}, {}, 0, 0.0f, 10},
      {{{0, 0, 70, 70, 71, -1}, {1, 0, 71, 70, 72, -1}}, {}, 0, 0.0f, 22},
      // sinks before a window: in parts of their own, in one part with it, and as far as it leaves some
      {{{0, 0, 200, 200, 201, -1}, {1, 0, 4, 4, 5, -1}}, {}, 9, 0.0f, 4, 4},
      {{{0, 0, 20, 20, 21, -1}, {1, 0, 7, 7, 8, -1}, {2, 0, 68, 68, 69, -1}}, {}, 5, 0.0f, 4, 6},
      {{{0, 0, 200, 200, 201, -1}, {1, 0, 150, 150, 151, -1}}, {}, 30, 0.0f, 4, 70},
      {{{0, 0, 200, 200, 201, -1}, {1, 0, 100, 100, 101, -1}}, {}, 80, 0.0f, 4, 64},
      // more than the window leaves, and of no effect without one
      {{{0, 0, 90, 90, 91, -1}}, {}, 20, 0.0f, 4, 80},
      {{{0, 0, 90, 90, 91, -1}}, {}, 0, 0.0f, 4, 80}};
  for (const Case& c : cases) {
    CAPTURE(&c - cases.data());
    CHECK(worst_of(c, inputs(c)) < 2e-6);
  }
}

TEST_CASE("keys and values in every format, and heads of all sizes") {
  using enum fd::RowFormat;
  const auto check = [](fd::RowFormats formats, int d_head, int n_heads) {
    const Case c{.rows = chain(3, 126),
                 .nodes = {},
                 .window = 0,
                 .n_heads = n_heads,
                 .d_head = d_head,
                 .formats = formats};
    CAPTURE(fd::name_of(formats.k), fd::name_of(formats.v), d_head);
    CHECK(worst_of(c, inputs(c)) < 2e-6);
  };
  for (const fd::RowFormat format : {kF32, kF16, kBF16, kQ8_0}) {
    for (const int d_head : {7, 36, 64, 96, 128, 256}) {
      if (d_head % fd::values_in_element(format) == 0) check({format, format}, d_head, 4);
    }
    // mixed with each other
    for (const fd::RowFormat values : {kF32, kF16, kBF16, kQ8_0}) check({format, values}, 64, 2);
  }
  for (const int d_head : {1, 8, 260, 512}) check({kF16, kF16}, d_head, 2);
}

TEST_CASE("rows that share a part have the bits of rows alone") {
  const std::vector<RowPlace> tree{
      {0, 0, 200, 200, 201, 0},  {1, 0, 201, 200, 202, 1},  {2, 0, 202, 200, 202, 3},
      {3, 0, 203, 200, 203, 5},  {4, 0, 204, 200, 203, 8},  {5, 0, 205, 200, 203, 11},
      {6, 0, 206, 200, 204, 14}, {7, 0, 207, 200, 204, 18}, {8, 0, 208, 200, 205, 22}};
  const std::vector<int> nodes{0, 0, 1, 0, 2, 0, 1, 3, 0, 1, 4, 0, 2, 5,
                               0, 1, 3, 6, 0, 2, 5, 7, 0, 1, 3, 6, 8};
  std::vector<RowPlace> two = chain(3, 140);  // the second begins within a group
  for (const RowPlace& row : chain(4, 190, 1, 3)) two.push_back(row);
  const auto check = [](Case c, int n_heads) {
    c.n_heads = n_heads;
    CAPTURE(n_heads, c.rows.size(), c.window, c.nodes.size());
    const Inputs in = inputs(c);
    CHECK(differing(c, in) == 0);
    CHECK(worst_of(c, in) < 2e-6);
  };
  for (const int n_heads : {2, 4, 6, 16, 22}) check({chain(9, 200), {}, 0}, n_heads);
  for (const int n_heads : {2, 4}) {
    check({tree, nodes, 0}, n_heads);
    check({two, {}, 0}, n_heads);
    // windows that begin before a part for some rows, and within it for others
    check({chain(9, 200), {}, 70}, n_heads);
    check({tree, nodes, 139, 0.0f, 4, 5}, n_heads);
  }
  // Rows that see all of a part, up to its end, which is the node of each.
  std::vector<RowPlace> siblings;
  for (int i = 0; i < 4; ++i) siblings.push_back({i, 0, 63 + i, 61, 64, 3 * i});
  check({siblings, {0, 1, 2, 0, 1, 3, 0, 1, 4, 0, 1, 5}, 0}, 4);
  // No row is committed yet, and some see all of a part.
  std::vector<RowPlace> uncommitted = chain(70, 0);
  uncommitted.erase(uncommitted.begin(), uncommitted.begin() + 61);
  for (int i = 0; i < 9; ++i) uncommitted[fd::idx(i)].row = i;
  check({uncommitted, {}, 0}, 4);
  for (const fd::RowFormat format :
       {fd::RowFormat::kF16, fd::RowFormat::kBF16, fd::RowFormat::kQ8_0}) {
    const Case c{
        .rows = tree, .nodes = nodes, .window = 0, .d_head = 64, .formats = {format, format}};
    CHECK(differing(c, inputs(c)) == 0);
  }
}

TEST_CASE("what one row of several sees alone stays in it") {
  // A key, or a value, that is NaN: of the last row's own position, or of the first row's window.
  for (const fd::RowFormat format : {fd::RowFormat::kF32, fd::RowFormat::kF16}) {
    for (const auto& [window, place, seen_by] :
         {std::tuple{0, 208, 8}, {140, 61, 0}, {9, 192, 0}}) {
      const Case c{.rows = chain(9, 200),
                   .nodes = {},
                   .window = window,
                   .n_heads = 8,
                   .d_head = 32,
                   .formats = {format, format}};
      const Inputs in = inputs(c);
      for (auto part : {&Inputs::k, &Inputs::v}) {
        Inputs broken = in;
        for (int head = 0; head < kKvHeads; ++head) {
          (broken.*part)[fd::idx((head * kPlaces + place) * c.d_head + 5)] = NAN;
        }
        std::vector<float> found = attend(c, broken), before = attend(c, in);
        const std::size_t size = found.size() / 9;
        for (std::size_t row = 0; row < 9; ++row) {
          CAPTURE(window, row);
          const bool same =
              std::memcmp(found.data() + row * size, before.data() + row * size, size * 4) == 0;
          CHECK(same == (static_cast<int>(row) != seen_by));
        }
        CHECK(std::isnan(found[fd::idx(seen_by) * size + 5]));
      }
    }
  }
}

TEST_CASE("rows in a ring have the bits of rows in places of their own") {
  std::vector<Case> cases{
      {{{0, 0, 190, 185, 186, -1}, {1, 0, 191, 185, 187, -1}}, {}, 40},
      // a tree whose nodes lie on both sides of the ring's end
      {{{0, 0, 190, 189, 190, 0}, {1, 0, 195, 189, 192, 1}, {2, 0, 198, 189, 193, 4}},
       {0, 0, 3, 6, 0, 3, 5, 9},
       40,
       0.0f,
       4,
       5}};
  for (Case& c : cases) {
    const Inputs in = inputs(c);
    const std::vector<float> alone = attend(c, in);
    Case wraps = c;
    wraps.ring = {64, 32};
    Inputs moved = in;
    std::ranges::fill(moved.k, NAN);
    std::ranges::fill(moved.v, NAN);
    for (const RowPlace& row : c.rows) {
      const std::vector<int> from = places_of(c, row), to = places_of(wraps, row);
      REQUIRE(std::ranges::max(to) < 96);
      for (std::size_t i = 0; i < from.size(); ++i) {
        for (int head = 0; head < kKvHeads; ++head) {
          const auto begin = (head * kPlaces + from[i]) * c.d_head;
          const auto there = (head * kPlaces + to[i]) * c.d_head;
          std::copy_n(in.k.begin() + begin, c.d_head, moved.k.begin() + there);
          std::copy_n(in.v.begin() + begin, c.d_head, moved.v.begin() + there);
        }
      }
    }
    CHECK(attend(wraps, moved) == alone);
  }
}

TEST_CASE("great scores do not overflow, and a NaN stays in its row") {
  for (const fd::RowFormat format : {fd::RowFormat::kF32, fd::RowFormat::kF16}) {
    const Case c{.rows = {{0, 0, 130, 130, 131, -1}, {1, 0, 131, 131, 132, -1}},
                 .nodes = {},
                 .window = 0,
                 .formats = {format, format}};
    Inputs in = inputs(c);
    for (std::size_t i = 0; i < in.q.size() / 2; ++i) in.q[i] *= i % 2 == 0 ? 1000.0f : 200000.0f;
    in.q.back() = NAN;
    const std::vector<float> found = attend(c, in);
    const std::size_t half = found.size() / 2;
    for (std::size_t i = 0; i < half; ++i) CHECK(std::isfinite(found[i]));
    CHECK(std::isnan(found.back()));
    CHECK(std::isfinite(found[half]));  // another head of that row
  }
}
