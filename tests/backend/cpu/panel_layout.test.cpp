#include <foredraft/backend/cpu/panel_layout.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace cpu = foredraft::cpu;
using fd::TensorType;

TEST_CASE("blocks cost what the bit widths say") {
  struct Expected {
    TensorType type;
    int block_k;
    std::size_t bytes;
  };
  const Expected table[] = {
      {TensorType::kQ4_0, 64, 576},   {TensorType::kQ4_1, 64, 640},
      {TensorType::kQ5_0, 64, 704},   {TensorType::kQ5_1, 64, 768},
      {TensorType::kQ8_0, 64, 1088},  {TensorType::kQ4_K, 256, 2368},
      {TensorType::kQ5_K, 256, 2880}, {TensorType::kQ6_K, 256, 3392},
      {TensorType::kF32, 16, 1024},   {TensorType::kF16, 16, 512},
      {TensorType::kBF16, 16, 512},
  };
  for (const Expected& expected : table) {
    const cpu::PanelLayout layout = cpu::panel_layout(expected.type);
    CAPTURE(fd::layout_of(expected.type)->name);
    CHECK(layout.block_k == expected.block_k);
    CHECK(layout.bytes == expected.bytes);
    // Against the file: at most 3 % more, in exchange for aligned vectors and byte-wide scales.
    const auto file = *fd::row_bytes(expected.type, fd::idx(layout.block_k));
    CHECK(layout.bytes >= file * cpu::kPanelRows);
    CHECK(static_cast<double>(layout.bytes) <= 1.03 * static_cast<double>(file * cpu::kPanelRows));
  }
}

TEST_CASE("every vector of a block begins at a cache line") {
  for (const TensorType type :
       {TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1,
        TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    const cpu::PanelLayout layout = cpu::panel_layout(type);
    CHECK(layout.bytes % 64 == 0);
    CHECK(layout.low % 64 == 0);
    CHECK(layout.high % 64 == 0);
    CHECK(layout.scales % 64 == 0);
    CHECK(layout.mins % 64 == 0);
    CHECK(layout.high <= layout.bytes);
  }
}
