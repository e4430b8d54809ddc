#include <foredraft/backend/cuda/heads.hpp>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

constexpr int kRows = 2, kHeads = 3, kKvHeads = 2, kHead = 10, kTurning = 6, kPlaces = 5;
constexpr float kEpsilon = 0.1f;
/// How far a stored value may be from the exact one: digits that its format lacks, below 8.
template <typename S>
constexpr double kRounding = 1e-5;
template <>
constexpr double kRounding<fd::f16> = 5e-3;
template <>
constexpr double kRounding<fd::bf16> = 0x1p-6;

/// What a head should be: norm, then rotation of the first kTurning dimensions.
std::vector<double> finished(const float* head, const std::vector<float>* weight, fd::RopeKind rope,
                             const float* cos, const float* sin) {
  std::vector<double> x(head, head + kHead);
  if (weight != nullptr) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    for (std::size_t d = 0; d < kHead; ++d) {
      x[d] *= static_cast<double>((*weight)[d]) /
              std::sqrt(squares / kHead + static_cast<double>(kEpsilon));
    }
  }
  for (std::size_t pair = 0; pair < kTurning / 2; ++pair) {
    const std::size_t a = rope == fd::RopeKind::kAdjacent ? 2 * pair : pair;
    const std::size_t b = rope == fd::RopeKind::kAdjacent ? a + 1 : pair + kTurning / 2;
    const double c = static_cast<double>(cos[pair]), s = static_cast<double>(sin[pair]);
    const double turned = x[a] * c - x[b] * s;
    x[b] = x[a] * s + x[b] * c;
    x[a] = turned;
  }
  return x;
}

/// Heads of kPlaces rows, one behind the other.
template <typename S>
StoredRows rows_at(S* data, int d_head) {
  const std::size_t row = fd::row_bytes(fd::kFormatOf<S>, d_head);
  return {reinterpret_cast<std::byte*>(data), kPlaces * row, static_cast<int>(row),
          fd::kFormatOf<S>};
}

/// Keys and values of one row in the cache. @shape k, v [n_heads, 64]
template <typename S>
std::pair<std::vector<S>, std::vector<S>> stored(const std::vector<float>& k,
                                                 const std::vector<float>& v, Ring ring, int row,
                                                 int place) {
  using K = FinishHeads;
  constexpr int kDimensions = 64, kElements = kDimensions / fd::kValuesPerElement<S>;
  const int n_heads = static_cast<int>(k.size()) / kDimensions;
  const on_device::Array<float> keys(k), values(v), cos(mini::normals(kDimensions / 2, 6)),
      sin(mini::normals(kDimensions / 2, 7));
  const std::vector<S> nothing(fd::idx(n_heads * kPlaces * kElements));
  const on_device::Array<S> cache_k(nothing), cache_v(nothing);
  const on_device::Array<RowPlace> rows(std::vector<RowPlace>{{0, 0, row, 0, 1, -1}});
  K::Args args{.rows = rows.data(),
               .n_rows = 1,
               .n_heads = 0,
               .n_kv_heads = n_heads,
               .d_head = kDimensions,
               .q = nullptr,
               .k = keys.data(),
               .v = values.data(),
               .to_q = nullptr,
               .q_norm = {},
               .k_norm = {},
               .v_norm = {},
               .norms_all_heads = false,
               .rope = fd::RopeKind::kHalves,
               .n_rot = kDimensions,
               .cos = cos.data(),
               .sin = sin.data(),
               .layers = {}};
  args.layers.of[0] = {rows_at<S>(cache_k.data(), kDimensions),
                       rows_at<S>(cache_v.data(), kDimensions), ring};
  on_device::launch<K>(K::grid(args), K::shared(kDimensions), args);
  const auto of_row = [&](const std::vector<S>& all) {
    std::vector<S> found;
    for (int head = 0; head < n_heads; ++head) {
      const auto begin = all.begin() + (head * kPlaces + place) * kElements;
      found.insert(found.end(), begin, begin + kElements);
    }
    return found;
  };
  return {of_row(cache_k.read()), of_row(cache_v.read())};
}

}  // namespace

TEST_CASE(
    "keys and values in q8_0 are what the host makes of the floats, in the place of their row") {
  const std::vector<float> k = mini::normals(2 * 64, 2), v = mini::normals(2 * 64, 3, 1e-3f);
  const auto [float_k, float_v] = stored<float>(k, v, {}, 3, 3);
  const auto [codes_k, codes_v] = stored<fd::q8_0>(k, v, {2, 1}, 12, 2);  // 1 + 11 % 2
  REQUIRE(codes_k.size() == 4);
  CHECK(float_v == v);
  for (std::size_t i = 0; i < 4; ++i) {
    const fd::q8_0 key(float_k.data() + 32 * i), value(v.data() + 32 * i);
    CHECK(std::memcmp(&codes_k[i], &key, sizeof key) == 0);
    CHECK(std::memcmp(&codes_v[i], &value, sizeof value) == 0);
  }
}

TEMPLATE_TEST_CASE("heads are normed, turned and stored where their row belongs", "", float,
                   fd::f16, fd::bf16) {
  using K = FinishHeads;
  const std::vector<float> q = mini::normals(kRows * kHeads * kHead, 1);
  const std::vector<float> k = mini::normals(kRows * kKvHeads * kHead, 2);
  const std::vector<float> v = mini::normals(kRows * kKvHeads * kHead, 3);
  const std::vector<float> q_weight = mini::normals(kHead, 4), k_weight = mini::normals(kHead, 5),
                           v_weight = mini::normals(kHead, 8);
  const std::vector<float> cos = mini::normals(kRows * kTurning / 2, 6);
  const std::vector<float> sin = mini::normals(kRows * kTurning / 2, 7);
  for (const fd::RopeKind rope : {fd::RopeKind::kAdjacent, fd::RopeKind::kHalves}) {
    for (const bool normed : {false, true}) {
      const on_device::Array<float> queries(q), to(q.size()), keys(k), values(v), by_q(q_weight),
          by_k(k_weight), by_v(v_weight), c(cos), s(sin);
      const on_device::Array<TestType> cache_k(2 * kKvHeads * kPlaces * kHead),
          cache_v(2 * kKvHeads * kPlaces * kHead);
      // The second row first, of the second sequence.
      const on_device::Array<RowPlace> rows(
          std::vector<RowPlace>{{1, 1, 4, 0, 1, -1}, {0, 0, 2, 0, 1, -1}});
      K::Args args{.rows = rows.data(),
                   .n_rows = kRows,
                   .n_heads = kHeads,
                   .n_kv_heads = kKvHeads,
                   .d_head = kHead,
                   .q = queries.data(),
                   .k = keys.data(),
                   .v = values.data(),
                   .to_q = to.data(),
                   .q_norm = {normed ? by_q.data() : nullptr, kEpsilon},
                   .k_norm = {normed ? by_k.data() : nullptr, kEpsilon},
                   .v_norm = {normed ? by_v.data() : nullptr, kEpsilon},
                   .norms_all_heads = false,
                   .rope = rope,
                   .n_rot = kTurning,
                   .cos = c.data(),
                   .sin = s.data(),
                   .layers = {}};
      const std::size_t sequence = kKvHeads * kPlaces * kHead;
      for (std::size_t i = 0; i < 2; ++i) {
        args.layers.of[i] = {rows_at<TestType>(cache_k.data() + i * sequence, kHead),
                             rows_at<TestType>(cache_v.data() + i * sequence, kHead)};
      }
      on_device::launch<K>(K::grid(args), K::shared(kHead), args);

      double worst = 0, worst_stored = 0, worst_value = 0;
      const std::vector<float> still_cos(kTurning / 2, 1.0f), still_sin(kTurning / 2, 0.0f);
      const std::vector<float> turned = to.read();
      const std::vector<TestType> stored_k = cache_k.read(), stored_v = cache_v.read();
      for (std::size_t row = 0; row < kRows; ++row) {
        const float* const row_cos = cos.data() + row * kTurning / 2;
        const float* const row_sin = sin.data() + row * kTurning / 2;
        for (std::size_t head = 0; head < kHeads; ++head) {
          const std::size_t at = (row * kHeads + head) * kHead;
          const auto expected =
              finished(q.data() + at, normed ? &q_weight : nullptr, rope, row_cos, row_sin);
          for (std::size_t d = 0; d < kHead; ++d) {
            worst = std::fmax(worst, std::abs(static_cast<double>(turned[at + d]) - expected[d]));
          }
        }
        const std::size_t place = row == 1 ? 4 : 2;
        for (std::size_t head = 0; head < kKvHeads; ++head) {
          const std::size_t at = (row * kKvHeads + head) * kHead;
          const std::size_t there = row * sequence + (head * kPlaces + place) * kHead;
          const auto expected =
              finished(k.data() + at, normed ? &k_weight : nullptr, rope, row_cos, row_sin);
          const auto of_value = finished(v.data() + at, normed ? &v_weight : nullptr, rope,
                                         still_cos.data(), still_sin.data());
          for (std::size_t d = 0; d < kHead; ++d) {
            worst_stored =
                std::fmax(worst_stored,
                          std::abs(static_cast<double>(static_cast<float>(stored_k[there + d])) -
                                   expected[d]));
            const double value = static_cast<double>(static_cast<float>(stored_v[there + d]));
            worst_value = std::fmax(worst_value, std::abs(value - of_value[d]));
            if (normed) continue;
            CHECK(static_cast<float>(stored_v[there + d]) ==
                  static_cast<float>(static_cast<TestType>(v[at + d])));
          }
        }
      }
      CHECK(worst < 1e-5);
      CHECK(worst_stored < (kRounding<TestType>));
      CHECK(worst_value < (kRounding<TestType>));
    }
  }
}
