#include <foredraft/model/family/olmo2.hpp>

#include <cstddef>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("olmo2 norms all heads together and sees all positions") {
  const fd::ModelConfig config = Metadata::of("olmo2").read();
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  for (const fd::LayerShape& layer : config.layers) {
    CHECK(layer.attention.norms_all_heads);
    CHECK(layer.attention.window == 0);
  }
}

TEST_CASE("olmo2: with a window, every fourth layer sees all positions") {
  Metadata metadata = Metadata::of("olmo2");
  metadata.numbers["olmo2.block_count"] = 8;
  metadata.numbers["olmo2.attention.sliding_window"] = 16;
  const auto window_of = [&](std::size_t layer) {
    return int{metadata.read().layers.at(layer).attention.window};
  };
  for (std::size_t n = 0; n < 8; ++n) CHECK(window_of(n) == (n % 4 == 3 ? 0 : 16));
  metadata.numbers["olmo2.attention.sliding_window_pattern"] = 2;
  for (std::size_t n = 0; n < 8; ++n) CHECK(window_of(n) == (n % 2 == 1 ? 0 : 16));
  metadata.texts["olmo2.rope.scaling.type"] = "linear";
  metadata.reals["olmo2.rope.scaling.factor"] = 2.0f;
  const fd::ModelConfig stretched = metadata.read();
  for (const fd::LayerShape& layer : stretched.layers) {
    const bool full = layer.attention.window == 0;
    CHECK(stretched.ropes.at(fd::idx(layer.attention.rope)).scale == (full ? 0.5 : 1.0));
  }
  metadata.texts["olmo2.rope.scaling.type"] = "yarn";
  metadata.numbers["olmo2.rope.scaling.original_context_length"] = 64;
  const fd::ModelConfig yarn = metadata.read();
  CHECK_FALSE(yarn.ropes.at(0).stretch.empty());
  CHECK(yarn.ropes.at(1).stretch.empty());
  CHECK((yarn.ropes.at(0).magnitude > 1.0 && yarn.ropes.at(1).magnitude == 1.0));
}
