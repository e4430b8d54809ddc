#include <foredraft/backend/cuda/tile_product.hpp>

#include <vector>

#include "backend/cuda/on_device.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

/// Which rows lanes work for, of 11.
struct ListRows {
  static constexpr const char* kName = "list_rows";
  static constexpr int kThreads = 32;
  struct Args {
    int* out;  // [32, 6]
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const auto rows = LaneRows<2>::of(t, [](int i) { return i < 11 ? 100 + i : -1; });
    for (int column = 0; column < 2; ++column) {
      int* const to = a.out + lane_of(t) * 6 + column * 3;
      t.store(to, rows.factor[column]);
      t.store(to + 1, rows.sums[column][0]);
      t.store(to + 2, rows.sums[column][1]);
    }
  }
};

}  // namespace

TEST_CASE("a sum is divided by the matrix alone") {
  static_assert(split_of(16, 64) == 1 && split_of(16, 256) == 4 && split_of(16, 512) == 8);
  static_assert(split_of(4096, 4096) == 4 && split_of(150000, 4096) == 1);
  static_assert(split_of(14336, 4096) == 1 && split_of(4096, 14336) == 8);  // gate and up, down
  for (int n_out = 1; n_out < 100000; n_out = n_out * 3 + 1) {
    for (int n_in = 1; n_in < 100000; n_in = n_in * 2 + 1) {
      const int split = split_of(n_out, n_in);
      CHECK(8 % split == 0);
      CHECK((split == 1 || parts_of(n_in, kTileColumns) >= 4 * split));
    }
  }
}

TEST_CASE("a lane has the rows that the tensor core's layout says") {
  const on_device::Array<int> out(32 * 6);
  on_device::launch<ListRows>({}, 0, {out.data()});
  const std::vector<int> found = out.read();
  const auto row = [](int i) { return i < 11 ? 100 + i : -1; };
  for (int lane = 0; lane < 32; ++lane) {
    for (int column = 0; column < 2; ++column) {
      const auto at = fd::idx(lane * 6 + column * 3);
      CHECK(found[at] == row(column * 8 + lane / 4));
      CHECK(found[at + 1] == row(column * 8 + lane % 4 * 2));
      CHECK(found[at + 2] == row(column * 8 + lane % 4 * 2 + 1));
    }
  }
}
