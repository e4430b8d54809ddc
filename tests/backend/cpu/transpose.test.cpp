#include <foredraft/backend/cpu/transpose.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Shapes of which some are made of whole squares of 16 bytes and others are not.
template <typename T>
void check_transpose() {
  for (const int rows : {1, 4, 8, 32}) {
    for (const int columns : {1, 4, 6, 8, 12, 64, 80}) {
      CAPTURE(rows, columns, sizeof(T));
      std::vector<T> matrix(fd::idx(rows * columns));
      std::iota(matrix.begin(), matrix.end(), T{1});
      std::vector<T> turned(matrix.size());
      fd::cpu::transpose(matrix.data(), rows, columns, turned.data());
      bool right = true;
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
          right &= turned[fd::idx(column * rows + row)] == matrix[fd::idx(row * columns + column)];
        }
      }
      CHECK(right);
      std::vector<T> back(matrix.size());
      fd::cpu::transpose(turned.data(), columns, rows, back.data());
      CHECK(back == matrix);
    }
  }
}

}  // namespace

TEST_CASE("rows become columns, and rows again") {
  check_transpose<std::uint8_t>();
  check_transpose<std::uint16_t>();
  check_transpose<float>();
  check_transpose<double>();
}
