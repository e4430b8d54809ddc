#include <foredraft/backend/cuda/key_values.hpp>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// What load_element() makes of what store_element() has written, and rows of positions.
struct RoundTrip {
  static constexpr const char* kName = "round_trip";
  static constexpr int kThreads = 32;
  struct Args {
    float* values;  // [32], read and written
    fd::f16* half;  // [32]
    RowPlace row;
    const int* nodes;
    int* places;  // [32]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int i = t.thread();
    store_element(t, a.half + i, t.load(a.values + i));
    store_element(t, a.values + i, load_element(t, a.half + i) + 0 * load_element(t, a.values + i));
    if (i < a.row.visible) t.store(a.places + i, storage_row(t, a.row, a.nodes, i));
  }
};

}  // namespace

TEST_CASE("elements are rounded as the host rounds them; positions lead to rows") {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(std::ldexp(1.2345678f, i - 20));
  const on_device::Array<float> x(values);
  const on_device::Array<fd::f16> half(32);
  const on_device::Array<int> nodes(std::vector<int>{9, 9, 1, 4, 7}),
      places(std::vector<int>(32, -1));
  // Three committed positions, then the nodes 1, 4 and 7.
  const RowPlace row{.row = 0, .sequence = 0, .place = 10, .size = 3, .visible = 6, .path = 2};
  on_device::launch<RoundTrip>({}, 0, {x.data(), half.data(), row, nodes.data(), places.data()});
  const std::vector<float> rounded = x.read();
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(rounded[i] == fd::half_to_float(fd::float_to_half(values[i])));
  }
  const std::vector<int> found = places.read();
  CHECK(std::vector<int>(found.begin(), found.begin() + 7) ==
        std::vector<int>{0, 1, 2, 4, 7, 10, -1});
  RowPlace chain = row;
  chain.path = -1;
  on_device::launch<RoundTrip>({}, 0, {x.data(), half.data(), chain, nodes.data(), places.data()});
  CHECK(places.read()[5] == 5);
}

TEST_CASE("moves follow each other, in every layer and head") {
  using Moves = MoveRows<float>;
  constexpr int kRows = 6;
  // Two heads of three dimensions, then one head of two.
  const std::vector<Moves::Layer> shapes{{0, kRows * 3, 2, 3, 0},
                                         {2 * kRows * 3, kRows * 2, 1, 2, 6}};
  const std::size_t n = 2 * kRows * 3 + kRows * 2;
  std::vector<float> keys(n), values(n);
  std::iota(keys.begin(), keys.end(), 0.0f);
  std::iota(values.begin(), values.end(), 1000.0f);
  const on_device::Array<float> k(keys), v(values);
  const on_device::Array<Moves::Layer> layers(shapes);
  Moves::Args args{.k = k.data(),
                   .v = v.data(),
                   .layers = layers.data(),
                   .n_layers = 2,
                   .n_columns = 8,
                   .n_moves = 3,
                   .from = {4, 5, 1},
                   .to = {1, 4, 0}};
  on_device::launch<Moves>(Moves::grid(8), 0, args);
  for (std::vector<float>* rows : {&keys, &values}) {
    for (const auto& [first, d_head] : {std::pair{0, 3}, {kRows * 3, 3}, {2 * kRows * 3, 2}}) {
      for (int move = 0; move < 3; ++move) {
        for (int d = 0; d < d_head; ++d) {
          (*rows)[fd::idx(first + args.to[move] * d_head + d)] =
              (*rows)[fd::idx(first + args.from[move] * d_head + d)];
        }
      }
    }
  }
  CHECK(k.read() == keys);
  CHECK(v.read() == values);
}
