#include <foredraft/backend/cpu/intermediate.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <foredraft/backend/cpu/thread_pool.hpp>

#include "backend/cpu/aligned_bytes.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = fd::cpu;
using kernels_under_test::AlignedBytes;

TEST_CASE("rows written in pieces by several lanes are quantized as whole rows are") {
  constexpr int kRows = 3;
  constexpr int kLanes = 3;
  const cpu::KernelTable& kernels = *cpu::available_tables().front();
  cpu::ThreadPool pool(kLanes);
  std::mt19937 random(1);
  for (const fd::TensorType type :
       {fd::TensorType::kF32, fd::TensorType::kQ8_0, fd::TensorType::kQ4_K}) {
    const cpu::ActivationFormat format = cpu::activation_format(type);
    for (const int width : {64, 256, 300, 896, 1536}) {
      const auto n = static_cast<std::size_t>(width);
      const std::vector<float> x = mini::normals(kRows * n, 7);
      AlignedBytes expected(kRows * cpu::activation_bytes(format, n));
      const cpu::Activations whole{format, kRows, width, expected.data()};
      for (int row = 0; row < kRows; ++row) {
        kernels.quantize_row(&x[static_cast<std::size_t>(row) * n], whole, row, 0, width);
      }

      std::vector<cpu::Intermediate::Written> written(
          static_cast<std::size_t>(cpu::Intermediate::n_blocks(width)));
      for (int trial = 0; trial < 100; ++trial) {
        // (row, first column) of pieces of any length, in any order; each ends where the next begins.
        std::vector<std::pair<int, int>> pieces;
        for (int row = 0; row < kRows; ++row) {
          pieces.emplace_back(row, 0);
          const unsigned n_cuts = random() % 8;
          for (unsigned i = 0; i < n_cuts; ++i) {
            pieces.emplace_back(row, static_cast<int>(random() % n));
          }
        }
        std::sort(pieces.begin(), pieces.end());
        pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
        std::vector<std::pair<std::pair<int, int>, int>> order;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          const bool last = i + 1 == pieces.size() || pieces[i + 1].first != pieces[i].first;
          order.emplace_back(pieces[i], last ? width : pieces[i + 1].second);
        }
        std::shuffle(order.begin(), order.end(), random);

        std::vector<float> values(kRows * n);
        AlignedBytes found(kRows * cpu::activation_bytes(format, n));
        const cpu::Intermediate rows{
            values.data(), {format, kRows, width, found.data()}, written.data()};
        pool.run([&](int lane) {
          for (std::size_t i = static_cast<std::size_t>(lane); i < order.size(); i += kLanes) {
            const auto [row, begin] = order[i].first;
            const int end = order[i].second;
            const float* from = &x[static_cast<std::size_t>(row) * n];
            std::copy(from + begin, from + end, rows.row(row) + begin);
            rows.add(kernels, 1, begin, end);
          }
        });
        REQUIRE(std::memcmp(found.data(), expected.data(),
                            kRows * cpu::activation_bytes(format, n)) == 0);
        for (const auto& block : written) REQUIRE(block.count == 0);
      }
    }
  }
}
