#include <foredraft/model/family/mistral3.hpp>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("mistral3 is computed as llama") {
  const fd::ModelConfig config = Metadata::of("mistral3").read();
  CHECK(config.family == "mistral3");
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kAdjacent);
  CHECK(config.layers.size() == 2);
}

TEST_CASE("mistral3: what Ministral 3 does besides is refused") {
  Metadata metadata = Metadata::of("mistral3");
  metadata.reals["mistral3.attention.temperature_scale"] = 0.1f;
  CHECK(metadata.refused() == "unsupported-model");
  metadata.reals["mistral3.attention.temperature_scale"] = 0.0f;
  CHECK(metadata.refused() == "none");
  metadata.texts["mistral3.rope.scaling.type"] = "yarn";
  CHECK(metadata.refused() == "unsupported-model");
}
