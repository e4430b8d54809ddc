#include <foredraft/backend/cpu/recurrence.hpp>

#include <cmath>
#include <vector>

#include "backend/cpu/for_each_table.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {
double silu(double x) { return x / (1 + std::exp(-x)); }
}  // namespace

TEST_CASE("convolutions sum taps from the oldest to the newest, and skip those before the text") {
  constexpr int kTaps = 4;
  for_each_table([&](const fd::cpu::KernelTable& table) {
    for (const int n : {1, 15, 16, 17, 48, 70}) {
      CAPTURE(n);
      const std::vector<float> values = mini::normals(kTaps * 80, 1);
      const std::vector<float> kernel = mini::normals(kTaps * 80, 2);
      const std::vector<float> bias = mini::normals(80, 3);
      for (const int missing : {0, 2}) {
        for (const bool whole : {false, true}) {
          std::vector<float> out(fd::idx(n) + 1, 99.0f);
          fd::cpu::ConvolveTask task{.n_taps = kTaps,
                                     .kernel = kernel.data(),
                                     .kernel_stride = 80,
                                     .bias = whole ? bias.data() : nullptr,
                                     .activate = whole,
                                     .out = out.data(),
                                     .n = n};
          for (int i = missing; i < kTaps; ++i) task.taps[i] = values.data() + 80 * i;
          table.convolve(task);
          for (int c = 0; c < n; ++c) {
            double sum = whole ? bias[fd::idx(c)] : 0;
            for (int i = missing; i < kTaps; ++i)
              sum += double{values[fd::idx(80 * i + c)]} * kernel[fd::idx(80 * i + c)];
            CHECK(out[fd::idx(c)] == Approx(whole ? silu(sum) : sum).margin(1e-5));
          }
          CHECK(out.back() == 99.0f);
        }
      }
    }
  });
}

TEST_CASE("a step of a scan is the same whether anybody wants its result or not") {
  for_each_table([&](const fd::cpu::KernelTable& table) {
    for (const int d_state : {1, 16, 24, 128}) {
      for (const int d_head : {1, 8, 18}) {
        CAPTURE(d_state, d_head);
        const auto size = fd::idx(d_state * d_head);
        const std::vector<float> before = mini::normals(size, 1);
        const std::vector<float> u = mini::normals(fd::idx(d_head), 2);
        const std::vector<float> b = mini::normals(fd::idx(d_state), 3);
        const std::vector<float> c = mini::normals(fd::idx(d_state), 4);
        std::vector<float> state = before;
        std::vector<float> y(fd::idx(d_head) + 1, 99.0f);
        const fd::cpu::ScanStep step{state.data(), d_head,   d_state,  0.9f,     0.3f,
                                     1.5f,         u.data(), b.data(), c.data(), y.data()};
        table.scan_step(step);
        for (int p = 0; p < d_head; ++p) {
          double sum = 1.5 * u[fd::idx(p)];
          for (int k = 0; k < d_state; ++k) {
            const auto at = fd::idx(p * d_state + k);
            const double value = 0.9 * before[at] + 0.3 * u[fd::idx(p)] * b[fd::idx(k)];
            CHECK(state[at] == Approx(value).margin(1e-5));
            sum += value * c[fd::idx(k)];
          }
          CHECK(y[fd::idx(p)] == Approx(sum).margin(1e-4));
        }
        CHECK(y.back() == 99.0f);
        std::vector<float> silent = before;
        fd::cpu::ScanStep other = step;
        other.state = silent.data();
        other.y = nullptr;
        table.scan_step(other);
        CHECK(silent == state);
      }
    }
  });
}

TEST_CASE("a step of a delta net is the same whether anybody wants its result or not") {
  for_each_table([&](const fd::cpu::KernelTable& table) {
    for (const int d_key : {1, 8, 128}) {
      for (const int d_value : {1, 12, 16, 64, 100}) {
        CAPTURE(d_key, d_value);
        const std::vector<float> before = mini::normals(fd::idx(d_key * d_value), 1);
        const std::vector<float> q = mini::normals(fd::idx(d_key), 2, 0.2f);
        const std::vector<float> k = mini::normals(fd::idx(d_key), 3, 0.2f);
        const std::vector<float> v = mini::normals(fd::idx(d_value), 4);
        std::vector<float> state = before;
        state.push_back(99.0f);
        std::vector<float> y(fd::idx(d_value) + 1, 99.0f);
        const fd::cpu::DeltaStep step{state.data(), d_key,    d_value,  0.9f,    0.6f,
                                      q.data(),     k.data(), v.data(), y.data()};
        table.delta_step(step);
        for (int c = 0; c < d_value; ++c) {
          const auto at = [&](int row) { return fd::idx(row * d_value + c); };
          double said = 0;
          for (int row = 0; row < d_key; ++row) said += 0.9 * before[at(row)] * k[fd::idx(row)];
          double read = 0;
          for (int row = 0; row < d_key; ++row) {
            const double next =
                0.9 * before[at(row)] + k[fd::idx(row)] * 0.6 * (v[fd::idx(c)] - said);
            CHECK(state[at(row)] == Approx(next).margin(1e-5));
            read += next * q[fd::idx(row)];
          }
          CHECK(y[fd::idx(c)] == Approx(read).margin(1e-5));
        }
        CHECK((state.back() == 99.0f && y.back() == 99.0f));
        std::vector<float> silent = before;
        fd::cpu::DeltaStep other = step;
        other.state = silent.data();
        other.y = nullptr;
        table.delta_step(other);
        state.pop_back();
        CHECK(silent == state);
      }
    }
  });
}
