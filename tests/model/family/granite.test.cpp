#include <foredraft/model/family/granite.hpp>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("granite: factors are those of the file, and none where it has none") {
  Metadata metadata = Metadata::of("granite");
  const fd::ModelConfig plain = metadata.read();
  CHECK((plain.embedding_scale == 1.0f && plain.logit_scale == 1.0f));
  CHECK(plain.layers.at(0).attention.scale == 0.25f);
  metadata.reals = {{"granite.embedding_scale", 12.0f},
                    {"granite.attention.scale", 0.015625f},
                    {"granite.residual_scale", 0.22f},
                    {"granite.logit_scale", 8.0f}};
  const fd::ModelConfig config = metadata.read();
  CHECK(config.embedding_scale == 12.0f);
  CHECK(config.logit_scale == 0.125f);
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kAdjacent);
  for (const fd::LayerShape& layer : config.layers) {
    CHECK(layer.attention.scale == 0.015625f);
    CHECK(layer.attention.residual == 0.22f);
    CHECK(layer.feed_forward.residual == 0.22f);
  }
}

TEST_CASE("granite: what cannot be computed is refused") {
  Metadata metadata = Metadata::of("granite");
  metadata.flags["granite.rope.scaling.finetuned"] = false;
  CHECK(metadata.refused() == "unsupported-model");
  metadata.flags["granite.rope.scaling.finetuned"] = true;
  CHECK(metadata.refused() == "none");
  metadata.reals["granite.logit_scale"] = -1.0f;
  CHECK(metadata.refused() == "corrupt-file");
  metadata.reals["granite.logit_scale"] = 1.0f;
  metadata.reals["granite.attn_logit_softcapping"] = 30.0f;
  CHECK(metadata.refused() == "unsupported-model");
}
