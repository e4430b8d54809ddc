#include <foredraft/backend/cuda/attention.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

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

std::vector<float> attend(const Case& c, const Inputs& in) {
  int visible = 0;
  for (const RowPlace& row : c.rows) visible = std::max(visible, row.visible);
  const int n_rows = static_cast<int>(c.rows.size());
  const int n_parts = parts_of(visible, kPart);
  const on_device::Array<RowPlace> rows(c.rows);
  const on_device::Array<int> nodes(c.nodes);
  const on_device::Array<float> q(in.q), k(in.k), v(in.v), out(in.q.size());
  const on_device::Array<float> parts(fd::idx(n_rows * c.n_heads * n_parts * (2 + c.d_head)));
  AttendPartArgs args{.rows = rows.data(),
                      .n_rows = n_rows,
                      .nodes = nodes.data(),
                      .q = q.data(),
                      .n_heads = c.n_heads,
                      .n_kv_heads = kKvHeads,
                      .d_head = c.d_head,
                      .scale = c.scale(),
                      .softcap = c.softcap,
                      .window = c.window,
                      .n_parts = n_parts,
                      .parts = parts.data(),
                      .layers = {}};
  const int row_bytes = c.d_head * static_cast<int>(sizeof(float));
  const auto stored = [&](const on_device::Array<float>& part) {
    return StoredRows{reinterpret_cast<std::byte*>(part.data()), fd::idx(kPlaces * row_bytes),
                      row_bytes};
  };
  args.layers.of[0] = {stored(k), stored(v), c.ring, c.sinks};
  with_attend_part(args.heads_of_keys(), [&]<typename K>() {
    on_device::launch<K>(K::grid(args), K::shared(c.d_head), args);
  });
  const MergeParts::Args merge{rows.data(), n_rows,       c.n_heads,  c.d_head, c.window,
                               n_parts,     parts.data(), out.data(), {c.sinks}};
  on_device::launch<MergeParts>(MergeParts::grid(merge), 0, merge);
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
  std::vector<double> sums(fd::idx(c.d_head)), weights;
  double all = 0;
  for (const int at : places_of(c, place)) {
    const std::size_t offset =
        (head / fd::idx(c.n_heads / kKvHeads) * kPlaces + fd::idx(at)) * fd::idx(c.d_head);
    double dot = 0;
    for (std::size_t d = 0; d < fd::idx(c.d_head); ++d) {
      dot += static_cast<double>(q[d]) * static_cast<double>(in.k[offset + d]);
    }
    double score = dot * static_cast<double>(c.scale());
    const double cap = static_cast<double>(c.softcap);
    if (cap != 0) score = cap * std::tanh(score / cap);
    const double weight = std::exp(score);
    all += weight;
    for (std::size_t d = 0; d < fd::idx(c.d_head); ++d)
      sums[d] += weight * static_cast<double>(in.v[offset + d]);
  }
  for (double& sum : sums) sum /= all;
  return sums;
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
    const Inputs in = inputs(c);
    const std::vector<float> found = attend(c, in);
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
    CHECK(worst < 2e-6);
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
  const Case c{{{0, 0, 130, 130, 131, -1}, {1, 0, 131, 131, 132, -1}}, {}, 0};
  Inputs in = inputs(c);
  for (std::size_t i = 0; i < in.q.size() / 2; ++i) in.q[i] *= 1000.0f;
  in.q.back() = NAN;
  const std::vector<float> found = attend(c, in);
  const std::size_t half = found.size() / 2;
  for (std::size_t i = 0; i < half; ++i) CHECK(std::isfinite(found[i]));
  CHECK(std::isnan(found.back()));
  CHECK(std::isfinite(found[half]));  // another head of that row
}
