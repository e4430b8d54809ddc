#include <foredraft/backend/cuda/selective_scan.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Sizes {
  int n_heads, n_groups, d_head, d_state;
  int width() const { return n_heads * d_head; }
  int d_conv() const { return width() + 2 * n_groups * d_state; }
  int n_inputs() const { return 2 * d_conv() + n_heads; }
};

/// Row 1 of the storage into zeros, kept in slot 0; row 0 into what is in slot 1, read out; row 2
/// into that.
template <int kPerLane>
void check(const Sizes& s) {
  CAPTURE(kPerLane, s.d_head, s.d_state);
  const std::vector<float> inputs = mini::normals(fd::idx(3 * s.n_inputs()), 1, 0.5f);
  const auto of_head = fd::idx(s.d_head * s.d_state);
  const auto n_heads = fd::idx(s.n_heads);
  const std::vector<float> before = mini::normals(2 * n_heads * of_head, 2);
  const std::vector<float> decay = mini::normals(n_heads, 3), skip = mini::normals(n_heads, 4);
  const on_device::Array<float> storage(inputs), states(before), out(2 * fd::idx(s.width())),
      decays(decay), skips(skip);
  const on_device::Array<StateStep> steps(
      std::vector<StateStep>{{.row = 1, .from = StateStep::kZeros, .slot = 0},
                             {.row = 0, .from = 1, .to = 1},
                             {.row = 2, .from = StateStep::kStays, .to = 0}});
  const on_device::Array<StateWalk> walks(std::vector<StateWalk>{{0, 3, 0}});
  using K = SelectiveScan<kPerLane>;
  typename K::Args args{.steps = steps.data(),
                        .walks = walks.data(),
                        .n_walks = 1,
                        .n_heads = s.n_heads,
                        .n_groups = s.n_groups,
                        .d_head = s.d_head,
                        .d_state = s.d_state,
                        .d_conv = s.d_conv(),
                        .decay = decays.data(),
                        .skip = skips.data(),
                        .out = out.data(),
                        .layers = {}};
  args.layers.of[0] = {storage.data(), states.data(),        s.n_inputs(),
                       s.n_heads,      s.d_head * s.d_state, 0};
  on_device::launch<K>(K::grid(args), 0, args);

  const std::vector<float> found = out.read();
  const std::vector<float> kept = states.read();
  double worst = 0;
  for (std::size_t head = 0; head < n_heads; ++head) {
    const std::size_t group = head / fd::idx(s.n_heads / s.n_groups);
    for (std::size_t p = 0; p < fd::idx(s.d_head); ++p) {
      const std::size_t column = head * fd::idx(s.d_head) + p;
      std::vector<double> state(fd::idx(s.d_state));
      const auto take_in = [&](std::size_t row) {
        const float* const in = inputs.data() + row * fd::idx(s.n_inputs()) + s.d_conv();
        const float* const b = in + fd::idx(s.width()) + group * fd::idx(s.d_state);
        const float* const c = b + s.n_groups * s.d_state;
        const auto u = static_cast<double>(in[column]);
        const auto dt = static_cast<double>(in[fd::idx(s.d_conv()) + head]);
        double y = static_cast<double>(skip[head]) * u;
        for (std::size_t k = 0; k < state.size(); ++k) {
          state[k] = std::exp(dt * static_cast<double>(decay[head])) * state[k] +
                     dt * u * static_cast<double>(b[k]);
          y += state[k] * static_cast<double>(c[k]);
        }
        return y;
      };
      const auto note = [&](float ours, double exact) {
        worst = std::fmax(worst, std::abs(static_cast<double>(ours) - exact));
      };
      const std::size_t at = head * of_head + p * state.size();
      (void)take_in(1);
      for (std::size_t k = 0; k < state.size(); ++k) note(kept[at + k], state[k]);
      for (std::size_t k = 0; k < state.size(); ++k)
        state[k] = static_cast<double>(before[n_heads * of_head + at + k]);
      const double one = take_in(0);
      note(found[fd::idx(s.width()) + column], one);
      note(found[column], take_in(2));
    }
  }
  CHECK(worst < 2e-5);
}

}  // namespace

TEST_CASE("a state decays, takes in an outer product, and is read out") {
  check<4>({2, 1, 1, 1});
  check<4>({4, 2, 9, 37});
  check<4>({2, 2, 16, 128});
  check<8>({2, 1, 5, 150});
  check<16>({1, 1, 3, 511});
}

TEST_CASE("what rows put in: what is convolved, the result, and time steps") {
  const Sizes s{3, 1, 30, 21};  // more than a block, and no whole ones
  const auto d_conv = fd::idx(s.d_conv());
  const std::size_t stride = fd::idx(s.width()) + d_conv + 3;
  std::vector<float> in = mini::normals(2 * stride, 1);
  in[stride - 1] = 30.0f;  // whose exp is not needed
  const std::vector<float> kernel = mini::normals(2 * d_conv, 2), bias = mini::normals(d_conv, 3),
                           dt_bias = mini::normals(3, 4);
  StateRow first{.row = 1, .sequence = 0}, second{.row = 0, .sequence = 0};
  first.taps[0] = {2, 1};
  second.taps[0] = {1, 0};
  second.taps[1] = {2, 1};  // the row before it is in the pass
  const on_device::Array<StateRow> rows(std::vector<StateRow>{first, second});
  const on_device::Array<float> projected(in), weights(kernel), biases(bias), dt_biases(dt_bias);
  for (const bool with_bias : {true, false}) {
    const on_device::Array<float> storage(fd::idx(3 * s.n_inputs()));
    PutInScan::Args args{.rows = rows.data(),
                         .n_rows = 2,
                         .width = s.width(),
                         .d_conv = s.d_conv(),
                         .n_heads = s.n_heads,
                         .n_taps = 2,
                         .in = projected.data(),
                         .kernel = weights.data(),
                         .conv_bias = with_bias ? biases.data() : nullptr,
                         .dt_bias = dt_biases.data(),
                         .layers = {}};
    args.layers.of[0].inputs = storage.data();
    args.layers.of[0].n_inputs = s.n_inputs();
    on_device::launch<PutInScan>(PutInScan::grid(args), 0, args);
    const std::vector<float> all = storage.read();
    for (const std::size_t row : {0u, 1u}) {
      const float* const found = all.data() + (row + 1) * fd::idx(s.n_inputs());
      const float* const own = in.data() + row * stride + s.width();
      double worst = 0;
      for (std::size_t c = 0; c < d_conv; ++c) {
        double sum = with_bias ? static_cast<double>(bias[c]) : 0.0;
        sum += static_cast<double>(own[c]) * static_cast<double>(kernel[d_conv + c]);
        if (row == 0) {
          sum += static_cast<double>(own[stride + c]) * static_cast<double>(kernel[c]);
        }
        CHECK(found[c] == own[c]);
        const double expected = sum / (1 + std::exp(-sum));
        worst = std::fmax(worst, std::abs(static_cast<double>(found[d_conv + c]) - expected));
      }
      for (std::size_t head = 0; head < 3; ++head) {
        const double t =
            static_cast<double>(own[d_conv + head]) + static_cast<double>(dt_bias[head]);
        const double expected = t > 20 ? t : std::log1p(std::exp(t));
        worst =
            std::fmax(worst, std::abs(static_cast<double>(found[2 * d_conv + head]) - expected));
      }
      CHECK(worst < 1e-5);
    }
  }
}
