#include <foredraft/backend/cpu/rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kHead = 6;
constexpr int kRows = 110;

/// Two layers of different shapes.
fd::CacheShape shape() { return {{{1, kHead}, {2, 2 * kHead}}, kRows}; }

float mark(int row, int layer, int head, int d) {
  return static_cast<float>(((row * 2 + layer) * 2 + head) * 100 + d);
}

/// Write a row that nobody has committed yet, saying in each element where it is.
void put(fd::cpu::Rows<float>& rows, int row, int says) {
  for (int layer = 0; layer < 2; ++layer) {
    const auto [n_heads, d_head, window] = shape().layers[fd::idx(layer)];
    for (int head = 0; head < n_heads; ++head) {
      std::vector<float> key(fd::idx(int{d_head}));
      for (int d = 0; d < d_head; ++d) key[fd::idx(d)] = mark(says, layer, head, d);
      std::vector<float> value(key.rbegin(), key.rend());
      rows.layer(layer).put(head, row, key, value);
    }
  }
}

/// What the row says, or -1 where layers, heads, keys and values disagree.
int read(fd::cpu::Rows<float>& rows, int row) {
  std::vector<float> first(kHead);
  rows.layer(0).get_key(0, row, first);
  const int says = static_cast<int>(first[0]) / 400;
  for (int layer = 0; layer < 2; ++layer) {
    const auto [n_heads, d_head, window] = shape().layers[fd::idx(layer)];
    for (int head = 0; head < n_heads; ++head) {
      std::vector<float> key(fd::idx(int{d_head}));
      std::vector<float> value(key.size());
      rows.layer(layer).get_key(head, row, key);
      rows.layer(layer).get_value(head, row, value);
      for (int d = 0; d < d_head; ++d) {
        const float expected = mark(says, layer, head, d);
        if (key[fd::idx(d)] != expected || value[fd::idx(d_head - 1 - d)] != expected) return -1;
      }
    }
  }
  return says;
}

}  // namespace

TEST_CASE("keys lie where they were written, whatever is committed") {
  fd::cpu::Rows<float> rows(shape(), kRows, false);
  for (int row = 0; row < kRows; ++row) put(rows, row, row);
  for (const int size : {0, 20, 31, 32, 40, 100, 110, 96, 95, 33, 0, 70}) {
    CAPTURE(size);
    size < rows.size() ? rows.truncate(size) : rows.commit(size - rows.size());
    REQUIRE(rows.size() == size);
    const auto layer = rows.layer(0);
    for (int row = 0; row < kRows; ++row) {
      const auto* const keys = reinterpret_cast<const float*>(layer.k.data);
      CHECK(keys[row / 32 * 32 * kHead + 4 * 32 + row % 32] == mark(row, 0, 0, 4));
      CHECK(read(rows, row) == row);
    }
  }
}

TEST_CASE("a moved row is the same in all layers, and a copy brings the committed rows back") {
  fd::cpu::Rows<float> rows(shape(), kRows, false);
  for (int row = 0; row < 70; ++row) put(rows, row, row);
  rows.commit(40);
  rows.move(67, 40);  // from another block of keys
  rows.commit(1);
  CHECK(read(rows, 40) == 67);
  std::vector<std::byte> k, v;
  rows.copy_to(0, 41, k, v);
  CHECK(k.size() == rows.key_elements(41));
  CHECK(v.size() == rows.value_elements(41));
  fd::cpu::Rows<float> others(shape(), kRows, true);
  others.append(41, k, v);
  CHECK(others.size() == 41);
  for (int row = 0; row < 40; ++row) CHECK(read(others, row) == row);
  CHECK(read(others, 40) == 67);
}

TEST_CASE("more moves than are noted at once are made in order") {
  fd::cpu::Rows<float> rows(shape(), kRows, false);
  for (int row = 0; row < kRows; ++row) put(rows, row, row == 0 ? 7 : 0);
  for (int row = 1; row < kRows; ++row) rows.move(row - 1, row);
  rows.commit(kRows);
  for (int row = 0; row < kRows; ++row) CHECK(read(rows, row) == 7);
}

TEST_CASE("rows are copied and appended in parts, wherever blocks of keys begin") {
  fd::cpu::Rows<float> rows(shape(), kRows, false);
  for (int row = 0; row < kRows; ++row) put(rows, row, row);
  rows.commit(kRows);
  for (const auto& ends : std::vector<std::vector<int>>{
           {1, 2, 110}, {31, 33, 64}, {32, 96, 100}, {5, 30, 31, 32, 70, 110}, {110}}) {
    fd::cpu::Rows<float> parts(shape(), kRows, false);
    for (const int end : ends) {
      std::vector<std::byte> k, v;
      rows.copy_to(parts.size(), end, k, v);
      CHECK(k.size() == rows.key_elements(end - parts.size()));
      parts.append(end - parts.size(), k, v);
      REQUIRE(parts.size() == end);
      for (int row = 0; row < end; ++row) CHECK(read(parts, row) == row);
    }
  }
  CHECK(rows.keeps_all());
}

TEST_CASE("a layer with a window is a ring, if that is shorter") {
  const fd::CacheShape windows{{{1, kHead, 10}, {2, 2 * kHead}}, 300};
  fd::cpu::Rows<float> rows(windows, 300, false, 20);
  CHECK(rows.layer(0).ring == 32);  // 10 + 20, rounded up to a block
  CHECK(rows.layer(1).ring == 0);
  for (int row = 0; row < 290; ++row) {
    rows.stage(1);
    put(rows, row, row);
    CHECK(rows.holds(row));
    rows.commit(1);
    for (int seen = std::max(0, row - 9); seen <= row; ++seen) REQUIRE(read(rows, seen) == seen);
  }
  CHECK(rows.holds(0));
  CHECK(rows.holds(290));
  CHECK(rows.holds(267));  // reads 258 on, the place of which is the next to be taken
  CHECK_FALSE(rows.holds(266));
  CHECK(rows.key_elements(290) == 4 * (kHead * 9 + 2 * 2 * kHead * 290));  // what row 290 sees
  rows.truncate(270);
  CHECK(read(rows, 269) == 269);
  rows.truncate(0);
  rows.stage(20);
  CHECK(rows.holds(0));
  CHECK(fd::cpu::Rows<float>(windows, 300, false).layer(0).ring == 0);
  CHECK(fd::cpu::Rows<float>(windows, 32, false, 20).layer(0).ring == 0);
  CHECK(fd::cpu::Rows<float>::bytes(windows, 300, 20) == 8.0 * (32 * kHead + 300 * 4 * kHead));
}

TEST_CASE("keys and values have formats of their own, named by the type or by the shape") {
  fd::CacheShape asked{{{2, 64, 40}, {1, 128}}, 300};
  const auto check = [&](auto& rows, fd::RowFormats formats) {
    REQUIRE(rows.layer(0).formats() == formats);
    const auto values = [](int row, float sign) {
      std::vector<float> x(64);
      for (int d = 0; d < 64; ++d) x[fd::idx(d)] = sign * static_cast<float>((row + d) % 50);
      return x;
    };
    for (int row = 0; row < 200; ++row) {
      rows.stage(1);
      rows.layer(0).put(1, row, values(row, 1), values(row, -1));
      rows.commit(1);
    }
    std::vector<std::byte> k, v;
    CHECK_FALSE(rows.keeps_all());
    rows.copy_to(0, 200, k, v);
    CHECK(k.size() == rows.key_elements(200));
    CHECK(v.size() == rows.value_elements(200));
    const auto positions = std::size_t{2 * 39 + 2 * 200};  // times 64 dimensions
    CHECK(k.size() == positions * fd::row_bytes(formats.k, 64));
    CHECK(v.size() == positions * fd::row_bytes(formats.v, 64));
    rows.truncate(0);
    rows.append(200, k, v);
    for (int row = 161; row < 200; ++row) {
      std::vector<float> key(64), value(64);
      rows.layer(0).get_key(1, row, key);
      rows.layer(0).get_value(1, row, value);
      // Half a step of q8_0 at most; the others hold such numbers as they are.
      for (std::size_t d = 0; d < 64; ++d) {
        const float step = 49.0f / 254 * 1.01f;
        CHECK(std::abs(key[d] - values(row, 1)[d]) <=
              (formats.k == fd::RowFormat::kQ8_0 ? step : 0.0f));
        CHECK(std::abs(value[d] - values(row, -1)[d]) <=
              (formats.v == fd::RowFormat::kQ8_0 ? step : 0.0f));
      }
    }
  };
  for (const auto k :
       {fd::RowFormat::kF32, fd::RowFormat::kF16, fd::RowFormat::kBF16, fd::RowFormat::kQ8_0}) {
    for (const auto v :
         {fd::RowFormat::kF32, fd::RowFormat::kF16, fd::RowFormat::kBF16, fd::RowFormat::kQ8_0}) {
      CAPTURE(fd::name_of(k), fd::name_of(v));
      asked.formats = {k, v};
      fd::cpu::AnyRows rows(asked, 300, false, 20);
      check(rows, asked.formats);
      const double row = static_cast<double>(fd::row_bytes(k, 64) + fd::row_bytes(v, 64));
      CHECK(fd::cpu::AnyRows::bytes(asked, 300, 20) == row * (2 * 64 + 2 * 300));
    }
  }
  // A type that names them does not ask the shape.
  fd::cpu::Rows<fd::q8_0, fd::f16> rows(asked, 300, false, 20);
  check(rows, {fd::RowFormat::kQ8_0, fd::RowFormat::kF16});
}

TEST_CASE("formats that a shape does not fit, and sizes that no memory holds, are refused") {
  CHECK_THROWS_AS((fd::cpu::Rows<fd::q8_0>({1, 1, 96, 8}, 8, false)), fd::Error);
  CHECK_THROWS_AS((fd::cpu::Rows<fd::f16, fd::q8_0>({1, 1, 96, 8}, 8, false)), fd::Error);
  CHECK_THROWS_AS((fd::cpu::Rows<float>({1, 0, 96, 8}, 8, false)), fd::Error);
  CHECK_THROWS_AS(
      (fd::cpu::Rows<float>({{{1 << 26, 1 << 26}, {1 << 26, 1 << 26}}, 8}, 1 << 26, true)),
      fd::Error);
  CHECK(fd::cpu::Rows<fd::f16>::bytes(shape(), 10) == 2.0 * 2 * 10 * (6 + 24));
}
