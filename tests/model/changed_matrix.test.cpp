#include <foredraft/model/changed_matrix.hpp>

#include <foredraft/backend/cpu/cpu.hpp>

#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

std::vector<float> row_of(const fd::Cpu::Matrix& matrix, int row) {
  std::vector<float> values(fd::idx(matrix.n_in()));
  matrix.dequantize_row(row, values.data());
  return values;
}

}  // namespace

TEST_CASE("a format counts as smaller by its rows") {
  using T = fd::TensorType;
  CHECK(fd::shrinks(T::kF32, 64, T::kQ8_0));
  CHECK(fd::shrinks(T::kQ6_K, 256, T::kQ4_0));
  CHECK(fd::shrinks(T::kQ8_0, 64, T::kQ4_0));
  CHECK(!fd::shrinks(T::kQ4_K, 256, T::kQ4_0));  // 4.5 bits both
  CHECK(!fd::shrinks(T::kQ6_K, 256, T::kQ8_0));
  CHECK(!fd::shrinks(T::kQ8_0, 64, T::kQ8_0));
  CHECK(!fd::shrinks(T::kF32, 40, T::kQ8_0));  // not whole blocks
}

TEST_CASE("changed rows are the quantized values, whatever the number of threads") {
  const auto source = kernels_under_test::random_matrix(fd::TensorType::kQ6_K, 77, 512, 1);
  const std::vector<fd::TokenId> some{0, 3, 4, 40, 76};
  for (const auto to : {fd::TensorType::kQ4_0, fd::TensorType::kQ8_0, fd::TensorType::kQ6_K}) {
    for (const auto& tokens : {std::vector<fd::TokenId>{}, some}) {
      for (const int threads : {1, 2, 3}) {
        fd::Cpu cpu{{.threads = threads}};
        const auto matrix = fd::pack_changed(cpu, "w", source.view(), tokens, to);
        CHECK(matrix.type() == to);
        REQUIRE(matrix.n_out() == (tokens.empty() ? 77 : 5));
        for (int i = 0; i < matrix.n_out(); ++i) {
          const auto n = fd::idx(tokens.empty() ? i : tokens[fd::idx(i)]);
          const std::byte* row = source.bytes.data() + n * source.row_size();
          std::vector<std::byte> changed(row, row + source.row_size());
          if (to != source.type) {
            changed.resize(*fd::row_bytes(to, 512));
            REQUIRE(fd::requantize_row(source.type, row, 512, to, changed.data()));
          }
          std::vector<float> expected(512);
          fd::dequantize_row(to, changed.data(), 512, expected.data());
          CHECK(row_of(matrix, i) == expected);
        }
      }
    }
  }
}

TEST_CASE("weights that a format cannot hold are refused by name") {
  const auto sound = kernels_under_test::random_matrix(fd::TensorType::kF32, 9, 64, 2);
  for (const auto& [bad, row] :
       {std::pair{std::numeric_limits<float>::quiet_NaN(), 8}, {1e9f, 8}, {1e9f, 0}, {1e9f, 5}}) {
    auto source = sound;
    std::memcpy(source.bytes.data() + 4 * (64 * row + 63), &bad, 4);
    fd::Cpu cpu{{.threads = 2}};
    try {
      fd::pack_changed(cpu, "blk.0.w", source.view(), {}, fd::TensorType::kQ4_0);
      FAIL("packed");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
      CHECK(error.found().find("'blk.0.w'") != std::string::npos);
    }
    // Left out, it does no harm.
    const std::vector<fd::TokenId> others{1, 2, 7};
    CHECK(fd::pack_changed(cpu, "w", source.view(), others, fd::TensorType::kQ4_0).n_out() == 3);
  }
}

TEST_CASE("a view without its data is refused") {
  const auto source = kernels_under_test::random_matrix(fd::TensorType::kF32, 9, 64, 2);
  fd::TensorView view = source.view();
  view.data = view.data.first(view.data.size() - 1);
  fd::Cpu cpu{{.threads = 1}};
  CHECK_THROWS_AS(fd::pack_changed(cpu, "w", view, {}, fd::TensorType::kQ8_0), fd::Error);
}
