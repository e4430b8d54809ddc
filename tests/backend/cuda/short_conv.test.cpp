#include <foredraft/backend/cuda/short_conv.hpp>

#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

TEST_CASE(
    "rows are gated, convolved along their path and gated again, and what they put in is kept") {
  for (const int width : {1, 128, 200}) {
    CAPTURE(width);
    const auto w = fd::idx(width);
    constexpr int kTaps = 3;
    const std::vector<float> in = mini::normals(3 * 3 * w, 1);  // of three rows
    const std::vector<float> kernel = mini::normals(kTaps * w, 2);
    const std::vector<float> before = mini::normals(6 * w, 3);
    // Row 2 of the pass follows row 0 and what lies in row 5 of the storage; row 1 has another
    // storage, and nothing before it.
    StateRow first{.row = 0, .sequence = 1}, second{.row = 1, .sequence = 0},
        third{.row = 2, .sequence = 1};
    first.taps[0] = {2, 0};
    first.taps[1] = {5, -1};
    second.taps[0] = {2, 1};
    third.taps[0] = {0, 2};
    third.taps[1] = {2, 0};
    third.taps[2] = {5, -1};
    const on_device::Array<StateRow> rows(std::vector<StateRow>{first, second, third});
    const on_device::Array<float> projected(in), weights(kernel), other(before), storage(before);
    const on_device::Array<float> out(3 * w);
    ShortConv::Args args{.rows = rows.data(),
                         .n_rows = 3,
                         .in = projected.data(),
                         .width = width,
                         .n_taps = kTaps,
                         .kernel = weights.data(),
                         .out = out.data(),
                         .layers = {}};
    args.layers.of[0].inputs = other.data();
    args.layers.of[1].inputs = storage.data();
    args.layers.of[0].n_inputs = args.layers.of[1].n_inputs = width;
    on_device::launch<ShortConv>(ShortConv::grid(args), 0, args);

    const std::vector<float> found = out.read();
    const std::vector<float> kept = storage.read();
    const std::vector<float> kept_of_other = other.read();
    for (std::size_t c = 0; c < w; ++c) {
      const auto b = [&](std::size_t row) { return static_cast<double>(in[row * 3 * w + c]); };
      const auto gate = [&](std::size_t row) {
        return static_cast<double>(in[(row * 3 + 1) * w + c]);
      };
      const auto u = [&](std::size_t row) {
        return static_cast<double>(in[(row * 3 + 2) * w + c]);
      };
      const auto k = [&](std::size_t tap) { return static_cast<double>(kernel[tap * w + c]); };
      const auto old = static_cast<double>(before[5 * w + c]);
      CHECK(found[c] == Approx(gate(0) * (old * k(1) + b(0) * u(0) * k(2))).margin(1e-5));
      CHECK(found[w + c] == Approx(gate(1) * b(1) * u(1) * k(2)).margin(1e-5));
      CHECK(found[2 * w + c] ==
            Approx(gate(2) * (old * k(0) + b(0) * u(0) * k(1) + b(2) * u(2) * k(2))).margin(1e-5));
      CHECK(kept[2 * w + c] == Approx(b(0) * u(0)).margin(1e-6));
      CHECK(kept[c] == Approx(b(2) * u(2)).margin(1e-6));
      CHECK(kept[5 * w + c] == before[5 * w + c]);
      CHECK(kept_of_other[2 * w + c] == Approx(b(1) * u(1)).margin(1e-6));
    }
  }
}
