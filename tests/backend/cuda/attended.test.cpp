#include <foredraft/backend/cuda/attended.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

constexpr int kRows = 4, kHeads = 3, kParts = 11, kWindow = 300, kSinks = 70;

/// Rows of a pass in another order than those of the launch.
const std::vector<RowPlace> kPlaces{{2, 0, 5, 5, 6, -1},
                                    {0, 1, 700, 690, 700, -1},
                                    {1, 0, 610, 610, 611, -1},
                                    {3, 1, 359, 350, 360, -1}};  // sinks and window share a part

/// What AttendPart would have written, NaN where it would not have.
std::vector<float> parts_of_rows(int d_head, int window) {
  std::vector<float> parts = mini::normals(fd::idx(kRows * kHeads * kParts * (2 + d_head)), 1);
  for (int row = 0; row < kRows; ++row) {
    const RowPlace& place = kPlaces[fd::idx(row)];
    const Visible seen = visible_of(place.visible, window, place.sequence == 1 ? kSinks : 0);
    for (int head = 0; head < kHeads; ++head) {
      for (int part = 0; part < kParts; ++part) {
        const auto at = ((row * kHeads + head) * kParts + part) * (2 + d_head);
        const int first = part * kPart, end = first + kPart;
        const bool some = first < seen.sinks || (first < seen.end && end > seen.first);
        parts[fd::idx(at + 1)] = std::abs(parts[fd::idx(at + 1)]) + 0.1f;
        if (!some) std::fill_n(parts.begin() + at, 2 + d_head, NAN);
      }
    }
  }
  return parts;
}

struct Found {
  std::vector<Words> words;
  std::vector<float> sums;
  int n_in;

  double at(int row, int k) const {
    const Words& w = words[fd::idx(k / 16 * 32 + row * 4 + k % 16 / 4)];
    const auto of = [&](int word) { return k % 2 == 0 ? low_of(w.v[word]) : high_of(w.v[word]); };
    return static_cast<double>(of(k % 4 / 2)) + static_cast<double>(of(2 + k % 4 / 2));
  }
};

Found prepared(int d_head, int window, const std::vector<float>& parts, const float* gate) {
  const int n_in = kHeads * d_head;
  const on_device::Array<RowPlace> rows(kPlaces);
  const on_device::Array<float> from(parts);
  const on_device::Array<Words> words(Operand::words_in(kRows, n_in));
  const on_device::Array<float> sums(Operand::sums_in(kRows, n_in));
  const PrepareAttended::Args args{
      .from = {rows.data(), kRows, kHeads, d_head, window, kParts, from.data(), {0, kSinks}},
      .gate = gate,
      .to = {words.data(), sums.data(), n_in}};
  on_device::launch<PrepareAttended>(PrepareAttended::grid(args), 0, args);
  return {words.read(), sums.read(), n_in};
}

}  // namespace

TEST_CASE("parts are merged into rows of an operand, in the order of the pass") {
  for (const int d_head : {8, 64, 5, 33}) {
    for (const int window : {0, kWindow}) {
      CAPTURE(d_head, window);
      const int n_in = kHeads * d_head;
      const std::vector<float> parts = parts_of_rows(d_head, window);
      const std::vector<float> gates = mini::normals(fd::idx(kRows * n_in), 2);
      const on_device::Array<float> gate(gates);
      const Found plain = prepared(d_head, window, parts, nullptr);
      const Found gated = prepared(d_head, window, parts, gate.data());
      for (int row = 0; row < kRows; ++row) {
        const int of_pass = kPlaces[fd::idx(row)].row;
        for (int k = 0; k < n_in; ++k) {
          double value = 0, sum = 0;
          for (int part = 0; part < kParts; ++part) {
            const float* const of =
                parts.data() + ((row * kHeads + k / d_head) * kParts + part) * (2 + d_head);
            if (std::isnan(of[0])) continue;
            const double weight = std::exp(double{of[0]});
            sum += weight * double{of[1]};
            value += weight * double{of[2 + k % d_head]};
          }
          REQUIRE(plain.at(of_pass, k) == Approx(value / sum).epsilon(2e-5).margin(1e-6));
          const double open = 1 / (1 + std::exp(-double{gates[fd::idx(of_pass * n_in + k)]}));
          REQUIRE(gated.at(of_pass, k) == Approx(open * value / sum).epsilon(2e-5).margin(1e-6));
        }
        for (int k = n_in; k < Operand::parts_in(n_in) * 16; ++k) {
          REQUIRE(plain.at(of_pass, k) == 0);
        }
      }
    }
  }
}
