#include <foredraft/backend/cpu/intermediate.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <foredraft/backend/cpu/thread_pool.hpp>

#include "backend/cpu/aligned_bytes.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = fd::cpu;
using kernels_under_test::AlignedBytes;

TEST_CASE("rows written in pieces by several workers are quantized as whole rows are") {
  constexpr int kRows = 3;
  constexpr int kWorkers = 3;
  const cpu::KernelTable& kernels = *cpu::available_tables().front();
  cpu::ThreadPool pool(kWorkers);
  std::mt19937 random(1);
  for (const fd::TensorType type :
       {fd::TensorType::kF32, fd::TensorType::kQ8_0, fd::TensorType::kQ4_K}) {
    const cpu::ActivationFormat format = cpu::activation_format(type);
    for (const int width : {64, 256, 300, 896, 1536}) {
      const auto n = fd::idx(width);
      const std::vector<float> x = mini::normals(kRows * n, 7);
      const std::size_t n_bytes = cpu::Activations::bytes(format, kRows, width);
      AlignedBytes expected(n_bytes);
      const cpu::Activations whole{format, kRows, width, expected.data()};
      for (int row = 0; row < kRows; ++row) {
        kernels.quantize_row(&x[fd::idx(row) * n], whole, row, 0, width);
      }

      std::vector<cpu::Intermediate::Written> written(fd::idx(cpu::Intermediate::n_blocks(width)));
      for (int trial = 0; trial < 100; ++trial) {
        // Pieces of any length, in any order: of row 0, and of the other two together.
        struct Piece {
          int row, n_rows, begin, end;
        };
        std::vector<Piece> pieces;
        for (const int row : {0, 1}) {
          std::vector<int> cuts{0, width};
          const unsigned n_cuts = random() % 8;
          for (unsigned i = 0; i < n_cuts; ++i) cuts.push_back(static_cast<int>(random() % n));
          std::sort(cuts.begin(), cuts.end());
          for (std::size_t i = 1; i < cuts.size(); ++i)
            pieces.push_back({row, row + 1, cuts[i - 1], cuts[i]});
        }
        std::shuffle(pieces.begin(), pieces.end(), random);

        std::vector<float> values(kRows * n);
        AlignedBytes found(n_bytes);
        const cpu::Intermediate rows{
            values.data(), {format, kRows, width, found.data()}, written.data()};
        pool.run([&](int worker) {
          for (std::size_t i = fd::idx(worker); i < pieces.size(); i += kWorkers) {
            const Piece& piece = pieces[i];
            for (int row = piece.row; row < piece.row + piece.n_rows; ++row) {
              const float* from = &x[fd::idx(row) * n];
              std::copy(from + piece.begin, from + piece.end, rows.row(row) + piece.begin);
            }
            rows.add(kernels, piece.n_rows, piece.begin, piece.end);
          }
        });
        REQUIRE(std::memcmp(found.data(), expected.data(), n_bytes) == 0);
        for (const auto& block : written) REQUIRE(block.count == 0);
      }
    }
  }
}
