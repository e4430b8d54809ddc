#include <foredraft/backend/cuda/delta_net.hpp>

#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }

struct Sizes {
  int n_heads, n_key_heads, d_key, d_value;
  bool tiled;
  int n_keys() const { return n_key_heads * d_key; }
  int width() const { return n_heads * d_value; }
  int d_conv() const { return 2 * n_keys() + width(); }
  int n_inputs() const { return 2 * d_conv() + 2 * n_heads; }
};

/// A state that takes in three tokens, as numbers in double.
struct Exact {
  const Sizes& s;
  const std::vector<float>& inputs;
  int head;
  std::vector<double> state = {};

  /// @return what is read out
  std::vector<double> take_in(int row) {
    const float* const in = inputs.data() + row * s.n_inputs() + s.d_conv();
    const int key_head = s.tiled ? head % s.n_key_heads : head / (s.n_heads / s.n_key_heads);
    const float* const q = in + key_head * s.d_key;
    const float* const k = q + s.n_keys();
    const float* const v = in + 2 * s.n_keys() + head * s.d_value;
    const double decay = static_cast<double>(in[s.d_conv() + head]);
    const double beta = static_cast<double>(in[s.d_conv() + s.n_heads + head]);
    std::vector<double> out(fd::idx(s.d_value));
    for (int c = 0; c < s.d_value; ++c) {
      const auto at = [&](int r) -> double& { return state[fd::idx(r * s.d_value + c)]; };
      double said = 0;
      for (int r = 0; r < s.d_key; ++r) said += decay * at(r) * static_cast<double>(k[r]);
      for (int r = 0; r < s.d_key; ++r) {
        at(r) =
            decay * at(r) + static_cast<double>(k[r]) * beta * (static_cast<double>(v[c]) - said);
        out[fd::idx(c)] += at(r) * static_cast<double>(q[r]);
      }
    }
    return out;
  }
};

/// Row 1 of the storage into zeros, kept in slot 0; row 0 into what is in slot 1, read out; row 2
/// into that.
template <int kFours, int kColumns = 8>
void check(const Sizes& s) {
  CAPTURE(kFours, s.d_key, s.d_value, s.tiled);
  const std::vector<float> inputs = mini::normals(fd::idx(3 * s.n_inputs()), 1, 0.3f);
  const auto of_head = fd::idx(s.d_key * s.d_value);
  const std::vector<float> before = mini::normals(2 * fd::idx(s.n_heads) * of_head, 2);
  const on_device::Array<float> storage(inputs), states(before), out(2 * fd::idx(s.width()));
  const on_device::Array<StateStep> steps(
      std::vector<StateStep>{{.row = 1, .from = StateStep::kZeros, .slot = 0},
                             {.row = 0, .from = 1, .to = 1},
                             {.row = 2, .from = StateStep::kStays, .to = 0}});
  const on_device::Array<StateWalk> walks(std::vector<StateWalk>{{0, 3, 0}});
  using K = DeltaNet<kFours, kColumns>;
  typename K::Args args{.steps = steps.data(),
                        .walks = walks.data(),
                        .n_walks = 1,
                        .n_heads = s.n_heads,
                        .n_key_heads = s.n_key_heads,
                        .tiled = s.tiled,
                        .d_key = s.d_key,
                        .d_value = s.d_value,
                        .aligned = s.d_conv() % 4 == 0 && s.n_inputs() % 4 == 0,
                        .out = out.data(),
                        .layers = {}};
  args.layers.of[0] = {storage.data(), states.data(),       s.n_inputs(),
                       s.n_heads,      s.d_key * s.d_value, 0};
  on_device::launch<K>(K::grid(args), 0, args);

  const std::vector<float> found = out.read();
  const std::vector<float> kept = states.read();
  for (int head = 0; head < s.n_heads; ++head) {
    const auto first = fd::idx(head) * of_head;
    Exact zeros{s, inputs, head, std::vector<double>(of_head)};
    (void)zeros.take_in(1);
    const auto slot =
        before.begin() + static_cast<std::ptrdiff_t>(fd::idx(s.n_heads) * of_head + first);
    Exact held{s, inputs, head, {slot, slot + static_cast<std::ptrdiff_t>(of_head)}};
    const std::vector<double> one = held.take_in(0);
    const std::vector<double> two = held.take_in(2);
    double worst = 0;
    for (std::size_t i = 0; i < of_head; ++i) {
      worst = std::fmax(worst, std::abs(static_cast<double>(kept[first + i]) - zeros.state[i]));
    }
    for (int c = 0; c < s.d_value; ++c) {
      const auto at = fd::idx(head * s.d_value + c);
      worst = std::fmax(
          worst, std::abs(static_cast<double>(found[fd::idx(s.width()) + at]) - one[fd::idx(c)]));
      worst = std::fmax(worst, std::abs(static_cast<double>(found[at]) - two[fd::idx(c)]));
    }
    CHECK(worst < 2e-5);
  }
  CHECK(std::equal(before.begin() + fd::idx(s.n_heads) * of_head, before.end(),
                   kept.begin() + fd::idx(s.n_heads) * of_head));
}

}  // namespace

TEST_CASE("a state decays, corrects what it says of a key, and is read out") {
  check<2>({4, 2, 1, 1, false});
  check<2>({4, 2, 20, 33, false});
  check<2>({4, 2, 32, 12, true});
  check<4>({2, 1, 33, 40, false});
  check<8>({2, 2, 128, 8, false});
  check<8, 4>({1, 1, 250, 9, false});
  check<2, 4>({2, 2, 64, 33, false});
}

TEST_CASE("what rows put in: queries and keys at their lengths, values, and two numbers a head") {
  for (const Sizes s : {Sizes{4, 2, 20, 40, false}, Sizes{3, 1, 130, 3, false}}) {
    CAPTURE(s.d_key);
    const auto d_conv = fd::idx(s.d_conv());
    const auto n_heads = fd::idx(s.n_heads);
    const std::vector<float> qkv = mini::normals(2 * d_conv, 1),
                             kernel = mini::normals(2 * d_conv, 2);
    const std::vector<float> beta = mini::normals(2 * n_heads, 3),
                             alpha = mini::normals(2 * n_heads, 4);
    const std::vector<float> bias = mini::normals(n_heads, 5), decay = mini::normals(n_heads, 6);
    StateRow first{.row = 1, .sequence = 3}, second{.row = 0, .sequence = 3};
    first.taps[0] = {2, 1};
    second.taps[0] = {1, 0};
    second.taps[1] = {2, 1};  // the row before it is in the pass
    const on_device::Array<StateRow> rows(std::vector<StateRow>{first, second});
    const on_device::Array<float> of_qkv(qkv), of_beta(beta), of_alpha(alpha), weights(kernel),
        dt_bias(bias), decays(decay), storage(fd::idx(3 * s.n_inputs()));
    PutInDeltaNet::Args args{.rows = rows.data(),
                             .n_rows = 2,
                             .n_heads = s.n_heads,
                             .n_key_heads = s.n_key_heads,
                             .d_key = s.d_key,
                             .width = s.width(),
                             .n_taps = 2,
                             .qkv = of_qkv.data(),
                             .beta = of_beta.data(),
                             .alpha = of_alpha.data(),
                             .kernel = weights.data(),
                             .dt_bias = dt_bias.data(),
                             .decay = decays.data(),
                             .layers = {}};
    args.layers.of[3].inputs = storage.data();
    args.layers.of[3].n_inputs = s.n_inputs();
    on_device::launch<PutInDeltaNet>(PutInDeltaNet::grid(args), PutInDeltaNet::shared(s.d_key),
                                     args);
    const std::vector<float> all = storage.read();
    for (const std::size_t pass_row : {0u, 1u}) {
      const float* const found = all.data() + (pass_row + 1) * fd::idx(s.n_inputs());
      double worst = 0;
      std::vector<double> convolved;
      for (std::size_t c = 0; c < d_conv; ++c) {
        double sum = static_cast<double>(qkv[pass_row * d_conv + c]) *
                     static_cast<double>(kernel[d_conv + c]);
        if (pass_row == 0) {
          sum += static_cast<double>(qkv[d_conv + c]) * static_cast<double>(kernel[c]);
        }
        convolved.push_back(silu(sum));
        CHECK(found[c] == qkv[pass_row * d_conv + c]);
      }
      for (std::size_t c = 0; c < d_conv; ++c) {
        double expected = convolved[c];
        if (c < fd::idx(2 * s.n_keys())) {
          const std::size_t begin = c / fd::idx(s.d_key) * fd::idx(s.d_key);
          double squares = 0;
          for (std::size_t d = 0; d < fd::idx(s.d_key); ++d)
            squares += convolved[begin + d] * convolved[begin + d];
          expected /= std::sqrt(squares + 1e-6);
          if (c < fd::idx(s.n_keys())) expected /= std::sqrt(s.d_key);
        }
        worst = std::fmax(worst, std::abs(static_cast<double>(found[d_conv + c]) - expected));
      }
      for (std::size_t head = 0; head < n_heads; ++head) {
        const double t =
            static_cast<double>(alpha[pass_row * n_heads + head]) + static_cast<double>(bias[head]);
        const double stays = std::exp(static_cast<double>(decay[head]) * std::log1p(std::exp(t)));
        const double corrected =
            1 / (1 + std::exp(-static_cast<double>(beta[pass_row * n_heads + head])));
        const float* const numbers = found + 2 * d_conv;
        worst = std::fmax(worst, std::abs(static_cast<double>(numbers[head]) - stays));
        worst =
            std::fmax(worst, std::abs(static_cast<double>(numbers[n_heads + head]) - corrected));
      }
      CHECK(worst < 1e-5);
    }
  }
}
