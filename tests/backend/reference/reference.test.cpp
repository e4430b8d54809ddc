#include <foredraft/backend/reference/reference.hpp>

#include <cmath>
#include <vector>

#include <foredraft/backend/cpu/rows.hpp>

#include "backend/layer_over.hpp"
#include "support/catch.hpp"

// The oracle itself, on numbers small enough to be worked out by hand.

namespace fd = foredraft;
using Matrix = fd::Reference::Matrix;
using Rows = fd::cpu::Rows<float>;

namespace {

Matrix matrix(std::initializer_list<std::initializer_list<float>> rows) { return Matrix(rows); }

template <typename Body>
void run(Body&& body) {
  fd::Reference reference;
  reference.run({}, body);
}

}  // namespace

TEST_CASE("pack expands a quantized matrix") {
  // One block of Q8_0: d = 0.5, codes 0, 1, 2, ...
  std::vector<std::byte> bytes{std::byte{0x00}, std::byte{0x38}};
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<std::byte>(i));
  const Matrix m = fd::Reference().pack({fd::TensorType::kQ8_0, 1, 32, bytes});
  REQUIRE((m.rows() == 1 && m.cols() == 32));
  for (int i = 0; i < 32; ++i) CHECK(m(0, i) == 0.5f * static_cast<float>(i));
}

TEST_CASE("embed") {
  const Matrix table = matrix({{1, 2}, {3, 4}, {5, 6}});
  const fd::TokenId tokens[] = {2, 0};
  float x[4];
  run([&](auto& worker) noexcept { worker.embed({&table, tokens, 10.0f, x}); });
  CHECK((x[0] == 50 && x[1] == 60 && x[2] == 10 && x[3] == 20));
}

TEST_CASE("feed-forward: rms norm, gate, activation, up; down added to x") {
  const Matrix gate = matrix({{1, 0}, {0, 0}});
  const Matrix up = matrix({{0, 2}, {1, 1}});
  const Matrix down = matrix({{0, 7}, {3, 8}});
  float silu[] = {3, 4};  // rms sqrt(12.5)
  float gelu[] = {3, 4};
  const float norm[] = {2, 0.5f};
  run([&](auto& worker) noexcept {
    worker.feed_forward({silu, 1, {norm, 0.0f}, fd::Activation::kSilu, &gate, &up, &down});
    worker.feed_forward({gelu, 1, {norm, 0.0f}, fd::Activation::kGeluTanh, &gate, &up, &down});
  });
  const double g = 6 / std::sqrt(12.5);
  const double u = 4 / std::sqrt(12.5);
  CHECK((silu[0] == 3 && gelu[0] == 3));
  CHECK(silu[1] == Approx(4 + 3 * g / (1 + std::exp(-g)) * u));
  const double tanh = std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g));
  CHECK(gelu[1] == Approx(4 + 3 * 0.5 * g * (1 + tanh) * u));
}

TEST_CASE("feed-forward without `up`: a factor in its place, or none; then x times a scale") {
  const Matrix gate = matrix({{1, 0}, {0, 1}});
  const Matrix down = matrix({{1, 0}, {0, 1}});
  const float factor[] = {9, 2, 3,
                          9};  // of each of two rows, from the second value on: one in four
  float given[] = {3, -4};
  float plain[] = {3, -4};
  fd::FeedForwardArgs<fd::Reference::Worker> args{
      given, 1, {}, fd::Activation::kReluSquared, &gate, nullptr, &down};
  args.factor = factor + 1;
  args.factor_stride = 4;
  args.output_scale = 0.5f;
  run([&](auto& worker) noexcept { worker.feed_forward(args); });
  CHECK((given[0] == 0.5f * (3 + 9 * 2) && given[1] == -2));
  args.x = plain;
  args.factor = nullptr;
  args.output_scale = 1.0f;
  run([&](auto& worker) noexcept { worker.feed_forward(args); });
  CHECK((plain[0] == 3 + 9 && plain[1] == -4));
}

TEST_CASE("each layer's own input: a projection, normed by layers, and an embedding") {
  // Two layers of two values each.
  const Matrix table = matrix({{0, 0, 0, 0}, {1, 2, 3, 4}});
  const Matrix projection = matrix({{3, 0}, {4, 0}, {0, 5}, {0, 0}});
  const float x[] = {1, 2};
  const float norm[] = {1, 10};
  const fd::TokenId tokens[] = {1};
  float inputs[4];
  fd::EmbedLayersArgs<fd::Reference::Worker> args;
  args.x = x;
  args.tokens = tokens;
  args.table = &table;
  args.projection = &projection;
  args.norm = {norm, 0.0f};
  args.d_input = 2;
  args.scale = 2.0f;
  args.inputs = inputs;
  run([&](auto& worker) noexcept { worker.embed_layers(args); });
  const double rms = std::sqrt(12.5);  // of (3, 4)
  const double half = std::sqrt(0.5);
  CHECK(inputs[0] == Approx((3 / rms + 2) * half));
  CHECK(inputs[1] == Approx((10 * 4 / rms + 4) * half));
  CHECK(inputs[2] == Approx((std::sqrt(2.0) + 6) * half));
  CHECK(inputs[3] == Approx(8 * half));
}

TEST_CASE(
    "qkv without wv makes values of keys, before norm and rotation; without wk it writes none") {
  const Matrix w = matrix({{3, 0}, {4, 0}});
  const float x[] = {1, 1};
  const float k_norm[] = {2, 2};
  const float ones[] = {1, 1};
  const float cos[] = {0};  // by 90 degrees
  const float sin[] = {1};
  float k[2] = {7, 7};
  float v[2] = {7, 7};
  float q[2];
  const std::vector<fd::SequenceRows> sequences{{.n_rows = 1, .path = {}, .path_begin = {}}};
  LayerOver rows(k, v, 2, 1, 0);
  const std::vector kv = rows.layers();
  fd::QkvArgs<fd::Reference::Worker, Rows> args;
  args.x = x;
  args.n_rows = 1;
  args.wq = &w;
  args.n_heads = args.n_kv_heads = 1;
  args.d_head = 2;
  args.rope = {fd::RopeKind::kHalves, 2, cos, sin};
  args.sequences = sequences;
  args.kv = kv;
  args.q = q;
  const auto qkv = [&] {
    run([&](auto& worker) noexcept { worker.qkv(args); });
    rows.read();
  };
  qkv();
  CHECK((q[0] == -4 && q[1] == 3));
  CHECK((k[0] == 7 && k[1] == 7 && v[0] == 7 && v[1] == 7));
  args.wk = &w;
  args.k_norm = {k_norm, 0.0f};
  qkv();
  const double rms = std::sqrt(12.5);
  CHECK((k[0] == Approx(-8 / rms) && k[1] == Approx(6 / rms)));
  CHECK((v[0] == 3 && v[1] == 4));
  args.v_norm = {ones, 0.0f};
  qkv();
  CHECK((v[0] == Approx(3 / rms) && v[1] == Approx(4 / rms)));
}

TEST_CASE("qkv turns q and k of both layouts and stores k and v at the node's place") {
  // The norm of (1, 1, 1, 1) is itself; the matrices pick constants.
  const Matrix wq = matrix({{1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0}, {4, 0, 0, 0}});
  const Matrix wv = matrix({{5, 0, 0, 0}, {6, 0, 0, 0}, {7, 0, 0, 0}, {8, 0, 0, 0}});
  const float x[] = {1, 1, 1, 1};
  const float norm[] = {1, 1, 1, 1};
  const float cos[] = {0, 1};  // the first pair by 90 degrees, the second not
  const float sin[] = {1, 0};
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 1, .first_node = 1, .size = 2, .path = {}, .path_begin = {}}};
  for (const fd::RopeKind kind : {fd::RopeKind::kAdjacent, fd::RopeKind::kHalves}) {
    float k[16] = {};
    float v[16] = {};
    float q[4];
    LayerOver rows(k, v, 4, 4, 2);
    const std::vector kv = rows.layers();
    run([&](auto& worker) noexcept {
      worker.qkv(fd::QkvArgs<fd::Reference::Worker, Rows>{x,
                                                          1,
                                                          {norm, 0.0f},
                                                          &wq,
                                                          &wq,
                                                          &wv,
                                                          nullptr,
                                                          nullptr,
                                                          nullptr,
                                                          1,
                                                          1,
                                                          4,
                                                          {kind, 4, cos, sin},
                                                          sequences,
                                                          kv,
                                                          q});
    });
    rows.read();
    const float* row = k + 3 * 4;
    if (kind == fd::RopeKind::kAdjacent) {
      CHECK((q[0] == -2 && q[1] == 1 && q[2] == 3 && q[3] == 4));
    } else {
      CHECK((q[0] == -3 && q[1] == 2 && q[2] == 1 && q[3] == 4));
    }
    for (int i = 0; i < 4; ++i)
      CHECK((row[i] == q[i] && v[12 + i] == 5.0f + static_cast<float>(i)));
    for (int i = 0; i < 12; ++i) CHECK((k[i] == 0 && v[i] == 0));
  }
}

TEST_CASE("attend: softmax over the committed rows and the node's own path") {
  // Rows 0 (committed), 1 and 2 (siblings): k q = 0 everywhere, so that weights are equal.
  float k[3] = {0, 0, 0};
  float v[3] = {1, 10, 100};
  const float q[2] = {1, 1};
  const Matrix wo = matrix({{2}});
  float x[2];
  const fd::NodeIndex path[] = {0, 1};
  const std::int32_t path_begin[] = {0, 1, 2};
  std::vector<fd::SequenceRows> sequences{{.first_row = 0,
                                           .n_rows = 2,
                                           .first_node = 0,
                                           .size = 1,
                                           .path = path,
                                           .path_begin = path_begin}};
  LayerOver rows(k, v, 1, 3, 1);
  const std::vector kv = rows.layers();
  const auto attend = [&] {
    x[0] = 1000;
    x[1] = 0;
    rows.write();
    run([&](auto& worker) noexcept {
      worker.attend(
          fd::AttendArgs<fd::Reference::Worker, Rows>{q, 2, 1, 1, 1, 1.0f, sequences, kv, &wo, x});
    });
  };
  attend();
  CHECK((x[0] == Approx(1000 + 2 * 5.5) && x[1] == Approx(2 * 50.5)));
  sequences[0].path = {};
  sequences[0].path_begin = {};
  attend();
  CHECK((x[0] == Approx(1000 + 2 * 5.5) && x[1] == Approx(2 * 37.0)));
  k[1] = static_cast<float>(std::log(3.0));  // three times the weight
  attend();
  CHECK(x[0] == Approx(1000 + 2 * (1 + 3 * 10) / 4.0));
}

TEST_CASE("attend: a window leaves out what lies before it, and a norm is that of the product") {
  float k[4] = {0, 0, 0, 0};
  float v[4] = {1000, 1, 3, 100};
  const float q[1] = {1};
  const Matrix wo = matrix({{2}, {0}});
  const float norm[] = {5, 5};
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 1, .first_node = 0, .size = 2, .path = {}, .path_begin = {}}};
  LayerOver rows(k, v, 1, 4, 2);
  const std::vector kv = rows.layers();
  fd::AttendArgs<fd::Reference::Worker, Rows> args{q,    1,         1,  1,   1,
                                                   1.0f, sequences, kv, &wo, nullptr};
  const auto attend = [&](int window) {
    float x[] = {10, 20};
    args.x = x;
    args.window = window;
    run([&](auto& worker) noexcept { worker.attend(args); });
    CHECK(x[1] == 20);
    return x[0];
  };
  CHECK(attend(0) == Approx(10 + 2 * 1004 / 3.0));
  CHECK(attend(3) == attend(0));
  CHECK(attend(4) == attend(0));
  CHECK(attend(2) == Approx(10 + 2 * 2.0));
  CHECK(attend(1) == Approx(10 + 2 * 3.0));
  args.post_norm = {norm, 0.0f};
  CHECK(attend(1) == Approx(10 + 5 * std::sqrt(2.0)));
}

TEST_CASE("attend: a soft-cap bends scores, and a factor scales what is added") {
  float k[2] = {0, 8};
  float v[2] = {1, 10};
  const float q[1] = {1};
  const Matrix wo = matrix({{1}});
  const float norm[] = {3};
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 1, .first_node = 0, .size = 1, .path = {}, .path_begin = {}}};
  LayerOver rows(k, v, 1, 2, 1);
  const std::vector kv = rows.layers();
  float x[] = {100};
  fd::AttendArgs<fd::Reference::Worker, Rows> args{q, 1, 1, 1, 1, 0.5f, sequences, kv, &wo, x};
  args.softcap = 2.0f;
  args.residual = 0.25f;
  run([&](auto& worker) noexcept { worker.attend(args); });
  const double weight = std::exp(2 * std::tanh(2.0));  // a score of 4
  CHECK(x[0] == Approx(100 + 0.25 * (1 + 10 * weight) / (1 + weight)));
  x[0] = 100;
  args.post_norm = {norm, 0.0f};
  run([&](auto& worker) noexcept { worker.attend(args); });
  CHECK(x[0] == Approx(100 + 0.25 * 3));
}

TEST_CASE("a gate: of the same norm as queries, and its sigmoid weighs what is attended to") {
  const Matrix wq = matrix({{0, 0}, {0, 0}});
  const Matrix w_gate = matrix({{1, 0}, {0, 2}});
  const Matrix wv = matrix({{3, 0}});
  const Matrix wo = matrix({{1, 0}, {0, 1}});
  float x[] = {1, 1};
  const float norm[] = {1, 2};
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 1, .first_node = 0, .size = 0, .path = {}, .path_begin = {}}};
  float k[1] = {}, v[1] = {}, q[2], gate[2];
  LayerOver rows(k, v, 1, 1, 0);
  const std::vector kv = rows.layers();
  fd::QkvArgs<fd::Reference::Worker, Rows> qkv;
  qkv.x = x;
  qkv.n_rows = 1;
  qkv.norm = {norm, 0.0f};
  qkv.wq = &wq;
  qkv.wk = qkv.wv = &wv;
  qkv.n_heads = 2;
  qkv.n_kv_heads = qkv.d_head = 1;
  qkv.sequences = sequences;
  qkv.kv = kv;
  qkv.q = q;
  qkv.w_gate = &w_gate;
  qkv.gate = gate;
  fd::AttendArgs<fd::Reference::Worker, Rows> attend{q, 1, 2, 1, 1, 1.0f, sequences, kv, &wo, x};
  attend.gate = gate;
  run([&](auto& worker) noexcept {
    worker.qkv(qkv);
    worker.attend(attend);
  });
  CHECK(x[0] == Approx(1 + 3 / (1 + std::exp(-1.0))));
  CHECK(x[1] == Approx(1 + 3 / (1 + std::exp(-4.0))));
}

TEST_CASE("feed-forward: without a norm, and with a factor on what is added") {
  const Matrix one = matrix({{1}});
  float x[] = {3};
  fd::FeedForwardArgs<fd::Reference::Worker> args{x,    1,    {},  fd::Activation::kSilu,
                                                  &one, &one, &one};
  args.residual = 0.5f;
  run([&](auto& worker) noexcept { worker.feed_forward(args); });
  CHECK(x[0] == Approx(3 + 0.5 * 9 / (1 + std::exp(-3.0))));
}

TEST_CASE("mixture: the experts of greatest scores, by the softmax of these") {
  // Scores of x = 1 are 1, 3, 3, 2: the second and the third are taken.
  const Matrix router = matrix({{1}, {3}, {3}, {2}});
  const Matrix gate = matrix({{100}, {1}, {2}, {100}});
  const Matrix up = matrix({{1}, {1}, {1}, {1}});
  const Matrix down = matrix({{1}, {10}, {100}, {1}});
  const float norm[] = {1};
  float x[] = {1};
  fd::MixtureArgs<fd::Reference::Worker> args{x, 1, {norm, 0.0f}};
  args.router = &router;
  args.gate = &gate;
  args.up = &up;
  args.down = &down;
  args.n_experts = 4;
  args.n_used = 2;
  run([&](auto& worker) noexcept { worker.mixture(args); });
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  CHECK(x[0] == Approx(1 + 0.5 * 10 * silu(1) + 0.5 * 100 * silu(2)));
  x[0] = 1;
  args.n_used = 3;
  run([&](auto& worker) noexcept { worker.mixture(args); });
  const double e = std::exp(-1.0);
  CHECK(x[0] == Approx(1 + (10 * silu(1) + 100 * silu(2) + e * silu(100)) / (2 + e)));

  const Matrix score = matrix({{-1}});
  const Matrix two = matrix({{2}});
  const Matrix five = matrix({{5}});
  args.shared = {&score, &two, &five, &two};
  args.n_used = 1;
  x[0] = 1;
  run([&](auto& worker) noexcept { worker.mixture(args); });
  CHECK(x[0] == Approx(1 + 10 * silu(1) + 2 * silu(2) * 5 / (1 + std::exp(1.0))));
}

TEST_CASE("gated delta net: the state decays, and what it says of a key is corrected") {
  // One head of two rows and one column, no look back, and two tokens of the same value. q and k point
  // along the first row in the first token, along both in the second.
  const Matrix qkv = matrix({{1, 1}, {0, 1}, {1, 1}, {0, 1}, {1, 0}});
  const Matrix one = matrix({{1, 0}});
  const Matrix none = matrix({{0, 0}});
  const Matrix out = matrix({{0}, {1}});
  const float kernel[] = {1, 1, 1, 1, 1};
  const float no_bias[] = {0};
  const float decay[] = {-1};
  const float norm[] = {1};
  float x[] = {2, 0, 2, 2};
  fd::CacheShape shape({}, 8);
  const fd::GatedDeltaNetShape net{
      .width = 1, .n_heads = 1, .n_key_heads = 1, .d_key = 2, .d_value = 1, .kernel = 1};
  shape.states = {net.state()};
  fd::Slots slots(shape, 2);
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 2, .first_node = 0, .size = 0, .path = {}, .path_begin = {}}};
  const std::vector<std::int32_t> rows{0, 1};
  const std::vector<fd::StateRows> states{{.staged = rows}};
  const std::vector<fd::Slots::Layer> kept{slots.layer(0)};
  const fd::GatedDeltaNetArgs<fd::Reference::Worker, fd::Slots> args{
      .common = {.x = x, .n_rows = 2, .sequences = sequences, .states = states, .kept = kept},
      .shape = net,
      .qkv = &qkv,
      .gate = &one,
      .beta = &none,
      .alpha = &none,
      .kernel = kernel,
      .dt_bias = no_bias,
      .decay = decay,
      .head_norm = {norm, 1e9f},  // divides by nearly sqrt(1e9), whatever the head says
      .out = &out};
  run([&](auto& worker) noexcept { worker.gated_delta_net(args); });

  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  const double v = silu(2);
  const double scale = silu(2) / std::sqrt(1e9);
  // The first token: k = (1, 0), q = k / sqrt(2); sigmoid(0) corrects half of v.
  const double first = v / 2;
  CHECK((x[0] == 2 && x[2] == 2));
  CHECK(x[1] == Approx(scale * first / std::sqrt(2.0)));
  // The second: what is there is halved, exp(-log(2)); k goes along both rows, in the ratio of
  // silu(4) to silu(2).
  const double length = std::hypot(silu(4), silu(2));
  const double k0 = silu(4) / length;
  const double k1 = silu(2) / length;
  const double kept_first = first / 2;
  const double correction = (v - k0 * kept_first) / 2;
  const double read = k0 * (kept_first + k0 * correction) + k1 * k1 * correction;
  CHECK(x[3] == Approx(2 + scale * read / std::sqrt(2.0)));
  CHECK(kept[0].states[2] == Approx(kept_first + k0 * correction));
  CHECK(kept[0].states[3] == Approx(k1 * correction));
}

TEST_CASE("head: logits are scaled, then capped") {
  const Matrix w = matrix({{1}, {3}});
  const float x[] = {4};
  const float norm[] = {1};
  const std::vector<std::int32_t> rows{0};
  std::vector<fd::TokenId> argmax(1);
  float logits[2];
  const std::vector<float*> wanted{logits};
  fd::HeadArgs<fd::Reference::Worker> args{x, rows, {norm, 0.0f}, &w, argmax, wanted};
  args.scale = 0.5f;
  args.softcap = 2.0f;
  run([&](auto& worker) noexcept { worker.head(args); });
  CHECK(logits[0] == Approx(2 * std::tanh(0.25)));
  CHECK(logits[1] == Approx(2 * std::tanh(0.75)));
  CHECK(argmax[0] == 1);
}

TEST_CASE("qkv: heads are normed one by one, before they turn") {
  const Matrix w = matrix({{3, 0, 0, 0}, {4, 0, 0, 0}, {30, 0, 0, 0}, {40, 0, 0, 0}});
  const float x[] = {1, 1, 1, 1};
  const float norm[] = {1, 1, 1, 1};
  const float of_heads[] = {1, 2};
  const float cos[] = {0};
  const float sin[] = {1};
  const std::vector<fd::SequenceRows> sequences{
      {.first_row = 0, .n_rows = 1, .first_node = 0, .size = 0, .path = {}, .path_begin = {}}};
  float k[4] = {}, v[4] = {}, q[4];
  LayerOver rows(k, v, 2, 1, 0, 2);
  const std::vector kv = rows.layers();
  fd::QkvArgs<fd::Reference::Worker, Rows> args;
  args.x = x;
  args.n_rows = 1;
  args.norm = {norm, 0.0f};
  args.wq = args.wk = args.wv = &w;
  args.n_heads = args.n_kv_heads = args.d_head = 2;
  args.rope = {fd::RopeKind::kHalves, 2, cos, sin};
  args.sequences = sequences;
  args.kv = kv;
  args.q = q;
  args.q_norm = {of_heads, 0.0f};
  const auto qkv = [&] {
    run([&](auto& worker) noexcept { worker.qkv(args); });
    rows.read();
  };
  qkv();
  const double rms = std::sqrt(12.5);
  for (int head = 0; head < 2; ++head) {
    CHECK(q[2 * head] == Approx(-8 / rms));
    CHECK(q[2 * head + 1] == Approx(3 / rms));
  }
  CHECK((k[0] == -4 && k[1] == 3 && k[2] == -40 && k[3] == 30));
  CHECK((v[0] == 3 && v[3] == 40));
  args.k_norm = {of_heads, 0.0f};
  qkv();
  for (int i = 0; i < 4; ++i) CHECK(k[i] == q[i]);

  // Or all of a row together; and what comes in need not be normed.
  const float of_all[] = {1, 2, 3, 4};
  args.norm = {};
  args.norms_all_heads = true;
  args.q_norm = args.k_norm = {of_all, 0.0f};
  qkv();
  const double all = std::sqrt((9 + 16 + 900 + 1600) / 4.0);
  CHECK(q[0] == Approx(-8 / all));
  CHECK(q[1] == Approx(3 / all));
  CHECK(q[2] == Approx(-160 / all));
  CHECK(q[3] == Approx(90 / all));
  for (int i = 0; i < 4; ++i) CHECK(k[i] == q[i]);
}

TEST_CASE("head: chosen rows, argmax and logits") {
  const Matrix w = matrix({{1, 0}, {0, 1}, {1, 1}, {1, 1}});
  const float x[] = {9, 9, 1, 1, -1, 1};
  const float norm[] = {1, 1};
  const std::vector<std::int32_t> rows{1, 2};
  std::vector<fd::TokenId> argmax(2);
  float logits[4];
  const std::vector<float*> wanted{logits, nullptr};
  run([&](auto& worker) noexcept { worker.head({x, rows, {norm, 0.0f}, &w, argmax, wanted}); });
  CHECK((argmax[0] == 2 && argmax[1] == 1));
  CHECK((logits[0] == 1 && logits[1] == 1 && logits[2] == 2 && logits[3] == 2));
}
