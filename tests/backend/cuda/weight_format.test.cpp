#include <foredraft/backend/cuda/weight_format.hpp>

#include <foredraft/core/dequantize.hpp>

#include "backend/cpu/random_matrix.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;
using fd::TensorType;

TEST_CASE("every type of a file has a format that is as wide, and scales as fine") {
  for (const TensorType type : kernels_under_test::kTypes) {
    CAPTURE(fd::layout_of(type)->name);
    const WeightFormat format = format_for(type);
    const FormatShape shape = shape_of(format);
    const fd::QuantGeometry geometry = fd::quant_geometry(type);
    CHECK((shape.group != 0) == (geometry.elements != 0));
    CHECK(shape.columns % kTileColumns == 0);
    if (geometry.elements == 0) continue;
    CHECK(geometry.bits <= (has_nibbles(format) ? 4 : 8));
    CHECK(shape.group <= geometry.sub);
    CHECK(shape.columns % shape.group == 0);
    // A lane has 16 bytes of codes: 8 of each 16 columns.
    CHECK(shape.columns / kTileColumns * 8 * (has_nibbles(format) ? 4 : 8) == 128);
  }
}

TEST_CASE("a format that is known when a program runs becomes a constant") {
  for (const TensorType type : kernels_under_test::kTypes) {
    const WeightFormat format = format_for(type);
    WeightFormat seen{};
    with_format(format, [&]<WeightFormat F>() { seen = F; });
    CHECK(seen == format);
  }
  static_assert(shape_of(WeightFormat::kQ4).scale_bytes() == 4);
  static_assert(shape_of(WeightFormat::kQ4Biased).scale_bytes() == 16);
  static_assert(shape_of(WeightFormat::kQ8Narrow).scale_bytes() == 8);
  static_assert(shape_of(WeightFormat::kBF16).scale_bytes() == 0);
}
