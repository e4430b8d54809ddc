#include <foredraft/backend/cpu/amx_matmul.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/cpu/packed_matrix.hpp>

#include "backend/cpu/aligned_bytes.hpp"
#include "backend/cpu/emulated_tiles.hpp"
#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"
#include "support/skip.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using amx_under_test::EmulatedUnit;
using amx_under_test::Mistake;
using kernels_under_test::AlignedBytes;
using kernels_under_test::columns_of;
using kernels_under_test::FileMatrix;
using kernels_under_test::kTypes;
using kernels_under_test::random_matrix;

namespace {

/// The kernels that tile products have to equal; none where this machine does not execute them.
const cpu::KernelTable* vectors() {
  for (const cpu::KernelTable* table : cpu::available_tables()) {
    if (table->isa == cpu::Isa::kAvx512Vnni && cpu::executable(table->isa)) return table;
  }
  skip("this machine does not execute avx512-vnni, or this program lacks it");
  return nullptr;
}

const cpu::KernelTable* compiled_for_tiles() {
  for (const cpu::KernelTable* table : cpu::available_tables()) {
    if (table->isa == cpu::Isa::kAmx) return table;
  }
  skip("this program lacks amx");
  return nullptr;
}

bool int8_format(fd::TensorType type) { return fd::quant_geometry(type).elements != 0; }

/// Rows that matrix products without tiles got.
int g_rows_by_vectors = 0;

void by_vectors(const cpu::PackedPanels& w, const cpu::Activations& a, int panel_begin,
                int panel_end, float* out, std::size_t ld_out, cpu::Epilogue epilogue) noexcept {
  g_rows_by_vectors += a.n_rows;
  vectors()->matmul(w, a, panel_begin, panel_end, out, ld_out, epilogue);
}

void by_tiles(const cpu::PackedPanels& w, const cpu::Activations& a, int panel_begin, int panel_end,
              float* out, std::size_t ld_out, cpu::Epilogue epilogue) noexcept {
  amx_under_test::emulated_matmul(&by_vectors, w, a, panel_begin, panel_end, out, ld_out, epilogue);
}

struct Case {
  Case(const cpu::KernelTable& kernels, const FileMatrix& file, const std::vector<float>& x,
       int rows)
      : n_rows(rows),
        n_out(file.n_out),
        packed(cpu::PackedMatrix::allocate(file.type, file.n_out, file.n_in)),
        memory(cpu::Activations::bytes(cpu::activation_format(file.type), rows,
                                       static_cast<int>(file.n_in))),
        view{cpu::activation_format(file.type), rows, static_cast<int>(file.n_in), memory.data()} {
    packed.pack_panels(file.view(), 0, packed.n_panels());
    for (int m = 0; m < rows; ++m) {
      kernels.quantize_row(x.data() + fd::idx(m) * file.n_in, view, m, 0, view.n_in);
    }
  }

  /// @param step  panels at a time
  std::vector<float> product(amx_under_test::Matmul matmul, int step = 1 << 20,
                             cpu::Epilogue epilogue = {}, std::size_t ld_out = 0) const {
    if (ld_out == 0) ld_out = n_out;
    std::vector<float> out(fd::idx(n_rows) * ld_out, 0.25f);
    for (int begin = 0; begin < packed.n_panels(); begin += step) {
      const int end = std::min(packed.n_panels() - begin, step) + begin;
      matmul(packed.panels(), view, begin, end, out.data(), ld_out, epilogue);
    }
    return out;
  }

  int n_rows;
  std::size_t n_out;
  cpu::PackedMatrix packed;
  AlignedBytes memory;
  cpu::Activations view;
};

std::vector<float> random_rows(int n_rows, std::size_t n_in, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(fd::idx(n_rows) * n_in);
  for (auto& value : x) value = normal(random);
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Every format, shape and number of rows, compared with the kernels without tiles.
void check_same_bits(const cpu::KernelTable& kernels, amx_under_test::Matmul matmul) {
  for (const fd::TensorType type : kTypes) {
    for (const std::size_t n_in : columns_of(type)) {
      // One output, a panel, and two with five outputs in a third.
      for (const std::size_t n_out : {1, 16, 37}) {
        const auto file = random_matrix(type, n_out, n_in, 61);
        const auto x = random_rows(33, n_in, 62);
        for (int rows = 1; rows <= 33; ++rows) {
          CAPTURE(fd::layout_of(type)->name, n_in, n_out, rows);
          const Case test(kernels, file, x, rows);
          REQUIRE(same_bits(test.product(matmul), test.product(kernels.matmul)));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("tile products have the bits of vectors, for every format and number of rows") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  EmulatedUnit::record() = {};
  check_same_bits(*kernels, &by_tiles);
  const auto& record = EmulatedUnit::record();
  CAPTURE(record.first_fault);
  CHECK(record.faults == 0);
  CHECK(record.configured == 0);
  CHECK(record.dots > 0);
}

TEST_CASE("prompts and divisions of panels") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  EmulatedUnit::record() = {};
  for (const fd::TensorType type :
       {fd::TensorType::kQ5_1, fd::TensorType::kQ4_K, fd::TensorType::kQ6_K}) {
    // Whole runs of 64 rows, pairs of groups, rows that tiles are not worth.
    for (const int rows : {64, 81, 131}) {
      CAPTURE(fd::layout_of(type)->name, rows);
      const Case test(*kernels, random_matrix(type, 69, 768, 71), random_rows(rows, 768, 72), rows);
      const auto expected = test.product(kernels->matmul);
      for (const int step : {1, 2, 5}) REQUIRE(same_bits(test.product(&by_tiles, step), expected));
    }
  }
  // More panels than the second-level cache is trusted with.
  const Case test(*kernels, random_matrix(fd::TensorType::kQ4_K, 256, 1536, 73),
                  random_rows(21, 1536, 74), 21);
  CHECK(same_bits(test.product(&by_tiles), test.product(kernels->matmul)));
  CHECK(EmulatedUnit::record().faults == 0);
}

TEST_CASE("tiles are used from the stated number of rows on, and for int8 formats alone") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  for (const fd::TensorType type : kTypes) {
    for (const int rows : {1, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33, 37, 38, 64, 72, 73}) {
      CAPTURE(fd::layout_of(type)->name, rows);
      const Case test(*kernels, random_matrix(type, 16, 256, 81), random_rows(rows, 256, 82), rows);
      EmulatedUnit::record() = {};
      g_rows_by_vectors = 0;
      test.product(&by_tiles);
      // Rows behind the last pair of groups are on their own.
      const int rest = rows % 32;
      const int expected = int8_format(type) ? (rest < cpu::least_amx_rows(type) ? rest : 0) : rows;
      CHECK(g_rows_by_vectors == expected);
      CHECK((EmulatedUnit::record().dots > 0) == (expected < rows));
    }
  }
}

TEST_CASE("the largest and smallest codes, scales and activations") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  EmulatedUnit::record() = {};
  for (const fd::TensorType type : kTypes) {
    if (!int8_format(type)) continue;
    for (const int byte : {0xff, 0x00, 0x7f, 0x80, 0x3f}) {
      for (const float activation : {1.0f, -1.0f}) {
        CAPTURE(fd::layout_of(type)->name, byte, activation);
        FileMatrix file = random_matrix(type, 16, 512, 1);
        std::fill(file.bytes.begin(), file.bytes.end(), static_cast<std::byte>(byte));
        kernels_under_test::set_scales(file, [] { return fd::float_to_half(1.0f); });
        const Case test(*kernels, file, std::vector<float>(9 * 512, activation), 9);
        REQUIRE(same_bits(test.product(&by_tiles), test.product(kernels->matmul)));
      }
    }
  }
  CHECK(EmulatedUnit::record().faults == 0);
}

TEST_CASE("what is not a number stays visible, and only in its own row") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  for (const fd::TensorType type : kTypes) {
    if (!int8_format(type)) continue;
    CAPTURE(fd::layout_of(type)->name);
    auto x = random_rows(12, 256, 5);
    x[9 * 256 + 77] = std::numeric_limits<float>::quiet_NaN();
    const auto out = Case(*kernels, random_matrix(type, 16, 256, 4), x, 12).product(&by_tiles);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i / 16 == 9));
  }
}

TEST_CASE("bias, accumulation and nothing beyond the last output") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  for (const int rows : {5, 13, 18}) {
    const Case test(*kernels, random_matrix(fd::TensorType::kQ4_K, 21, 256, 51),
                    random_rows(rows, 256, 52), rows);
    const auto bias = random_rows(1, 21, 53);
    for (const cpu::Epilogue& epilogue :
         {cpu::Epilogue{}, cpu::Epilogue{cpu::Epilogue::Kind::kAddBias, bias.data()},
          cpu::Epilogue{cpu::Epilogue::Kind::kAccumulate, nullptr}}) {
      CHECK(same_bits(test.product(&by_tiles, 1, epilogue, 40),
                      test.product(kernels->matmul, 1, epilogue, 40)));
    }
  }
}

TEST_CASE("mistakes in the use of tiles would be seen") {
  const cpu::KernelTable* kernels = vectors();
  if (kernels == nullptr) return;
  for (const fd::TensorType type : kTypes) {
    if (!int8_format(type)) continue;
    const Case test(*kernels, random_matrix(type, 16, 512, 91), random_rows(16, 512, 92), 16);
    const auto expected = test.product(kernels->matmul);
    for (const Mistake mistake :
         {Mistake::kNone, Mistake::kActivationsLate, Mistake::kWeightsLate,
          Mistake::kLastUnitMissing, Mistake::kRowsShifted, Mistake::kOtherSign, Mistake::kSumsKept,
          Mistake::kRowNotStored}) {
      CAPTURE(fd::layout_of(type)->name, static_cast<int>(mistake));
      EmulatedUnit::record() = {.mistake = mistake};
      const bool same = same_bits(test.product(&by_tiles), expected);
      EmulatedUnit::record() = {};
      // Bytes up to 127 are the same signed and unsigned.
      const bool no_sign = type == fd::TensorType::kQ4_1 || type == fd::TensorType::kQ5_1 ||
                           type == fd::TensorType::kQ4_K;
      CHECK(same == (mistake == Mistake::kNone || (mistake == Mistake::kOtherSign && no_sign)));
    }
  }
}

TEST_CASE("the table of amx has the attention of avx512-vnni") {
  const cpu::KernelTable* kernels = vectors();
  const cpu::KernelTable* amx = compiled_for_tiles();
  if (kernels == nullptr || amx == nullptr) return;
  CHECK(amx->attend == kernels->attend);
}

TEST_CASE("the table of amx as it was compiled has the bits of avx512-vnni") {
  const cpu::KernelTable* kernels = vectors();
  const cpu::KernelTable* amx = compiled_for_tiles();
  if (kernels == nullptr || amx == nullptr) return;
  if (cpu::executable(cpu::Isa::kAmx)) {
    check_same_bits(*kernels, amx->matmul);
    return;
  }
  if (!amx_under_test::Trap::possible()) return skip("tile instructions cannot be emulated here");
  EmulatedUnit::record() = {};
  {
    const amx_under_test::Trap trap;
    check_same_bits(*kernels, amx->matmul);
  }
  const auto& record = EmulatedUnit::record();
  CAPTURE(record.first_fault);
  CHECK(record.faults == 0);
  CHECK(record.configured == 0);
  CHECK(record.dots > 0);
}
