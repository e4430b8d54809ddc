#include <foredraft/model/family/phi3.hpp>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("phi3: the context ends where that of the short factors does") {
  Metadata metadata = Metadata::of("phi3");
  CHECK(metadata.read().n_ctx == 128);
  CHECK(metadata.read().ropes.at(0).magnitude == 1.0);
  metadata.numbers["phi3.rope.scaling.original_context_length"] = 32;
  metadata.numbers["phi3.rope.dimension_count"] = 12;
  metadata.reals["phi3.rope.scaling.attn_factor"] = 1.19f;
  metadata.texts["phi3.rope.scaling.type"] = "longrope";
  const fd::ModelConfig config = metadata.read();
  CHECK(config.n_ctx == 32);
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  CHECK(config.ropes.at(0).n_rot == 12);
  CHECK(config.ropes.at(0).magnitude == Approx(1.19));
  CHECK(config.ropes.at(0).scale == 1.0);
  CHECK(config.rope_factors == "rope_factors_short.weight");
  CHECK(config.other_rope_factors == "rope_factors_long.weight");
}

TEST_CASE("phi3: all layers see a window, unless it holds the context") {
  Metadata metadata = Metadata::of("phi3");
  for (const auto& [window, seen] : {std::pair(0u, 0), {100u, 100}, {128u, 0}, {262144u, 0}}) {
    metadata.numbers["phi3.attention.sliding_window"] = window;
    for (const fd::LayerShape& layer : metadata.read().layers) {
      CHECK(layer.attention.window == seen);
    }
  }
}

TEST_CASE("phi3: what lies side by side is a dimension, or the file is refused") {
  Metadata metadata = Metadata::of("phi3");
  metadata.numbers["phi3.feed_forward_length"] = fd::Dim::kMost / 2;
  CHECK(metadata.refused() == "none");
  metadata.numbers["phi3.feed_forward_length"] = fd::Dim::kMost / 2 + 1;
  CHECK(metadata.refused() == "corrupt-file");
}
