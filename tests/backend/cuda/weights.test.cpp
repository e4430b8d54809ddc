#include <foredraft/backend/cuda/weights.hpp>

#include <algorithm>
#include <set>
#include <tuple>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;

TEST_CASE("every weight has a place of its own, and a warp's step lies together") {
  for (const TensorType type : kernels_under_test::kTypes) {
    CAPTURE(fd::layout_of(type)->name);
    const Weights w{nullptr, nullptr, 32, 256, format_for(type)};
    const FormatShape shape = shape_of(w.format);
    std::set<std::tuple<std::size_t, int, int, int, int>> places;
    for (int row = 0; row < 32; ++row) {
      for (int k = 0; k < 256; ++k) {
        const Place place = place_of(w, row, k);
        places.emplace(place.step, place.lane, place.part, place.word, place.upper);
        const int wrong = (place.step / fd::idx(w.n_steps()) != fd::idx(row / 16)) +
                          (place.step % fd::idx(w.n_steps()) != fd::idx(k / shape.columns)) +
                          (place.lane / 4 != row % 8) + (place.word % 2 != row % 16 / 8) +
                          (place.part != k % shape.columns / 16) +
                          (place.at(shape.loads) / 32 / fd::idx(shape.loads) != place.step);
        REQUIRE(wrong == 0);
      }
    }
    CHECK(places.size() == 32 * 256);
  }
}

TEST_CASE("rows and columns behind the last are zeros") {
  const auto file = kernels_under_test::random_matrix(TensorType::kBF16, 3, 5, 1);
  const WeightBytes packed = pack_weights(file.view());
  CHECK(packed.steps.size() == 16 * 16 * 2);
  CHECK(packed.scales.empty());
  const auto written =
      fd::idx(std::ranges::count_if(packed.steps, [](std::byte b) { return b != std::byte{}; }));
  CHECK(written <= 3 * 5 * 2);
  CHECK(written > 3 * 5);
}

TEST_CASE("threads pack what one packs") {
  for (const TensorType type : kernels_under_test::kTypes) {
    CAPTURE(fd::layout_of(type)->name);
    const auto file = kernels_under_test::random_matrix(type, 77, 256, 3);  // five tiles
    const WeightBytes one = pack_weights(file.view(), 1);
    for (const int threads : {2, 3, 5, 9}) {
      const WeightBytes several = pack_weights(file.view(), threads);
      CHECK(several.steps == one.steps);
      CHECK(several.scales == one.scales);
    }
  }
}

TEST_CASE("what is packed takes whole tiles of whole steps") {
  for (const TensorType type : kernels_under_test::kTypes) {
    for (const std::size_t n_in : kernels_under_test::columns_of(type)) {
      CAPTURE(fd::layout_of(type)->name, n_in);
      const auto file = kernels_under_test::random_matrix(type, 17, n_in, 7);
      const WeightBytes packed = pack_weights(file.view());
      const Weights w{nullptr, nullptr, 17, static_cast<int>(n_in), format_for(type)};
      CHECK(w.n_tiles() == 2);
      CHECK(packed.steps.size() ==
            fd::idx(2 * w.n_steps() * shape_of(w.format).loads) * 32 * sizeof(Words));
      CHECK(packed.scales.size() ==
            fd::idx(2 * w.n_groups() * 8 * shape_of(w.format).scale_bytes()));
      CHECK(static_cast<double>(packed.steps.size() + packed.scales.size()) ==
            bytes_of(type, 17, n_in));
    }
  }
}

TEST_CASE("a view that holds less than it says is refused") {
  const auto file = kernels_under_test::random_matrix(TensorType::kQ8_0, 2, 32, 1);
  fd::TensorView view = file.view();
  view.n_out = 3;
  CHECK(code_of([&] { (void)pack_weights(view); }) == fd::ErrorCode::kShapeMismatch);
}
