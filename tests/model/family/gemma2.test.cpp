#include <foredraft/model/family/gemma2.hpp>

#include <cmath>
#include <cstddef>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("every second layer of gemma2 sees a window, and scores and logits are capped") {
  Metadata metadata = Metadata::of("gemma2");
  metadata.numbers["gemma2.block_count"] = 5;
  metadata.numbers["gemma2.attention.sliding_window"] = 32;
  metadata.reals["gemma2.attn_logit_softcapping"] = 40.0f;
  metadata.reals["gemma2.final_logit_softcapping"] = 20.0f;
  const fd::ModelConfig config = metadata.read();
  CHECK(config.embedding_scale == 8.0f);
  CHECK(config.logit_softcap == 20.0f);
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  REQUIRE(config.layers.size() == 5);
  for (std::size_t n = 0; n < 5; ++n) {
    CHECK(config.layers[n].attention.window == (n % 2 == 0 ? 32 : 0));
    CHECK(config.layers[n].attention.softcap == 40.0f);
    CHECK(config.layers[n].attention.scale == 0.25f);
    CHECK(config.layers[n].feed_forward.activation == fd::Activation::kGeluTanh);
  }
}

TEST_CASE("gemma2: what early files leave out") {
  const fd::ModelConfig config = Metadata::of("gemma2").read();
  CHECK(config.logit_softcap == 30.0f);
  CHECK(config.layers.at(0).attention.softcap == 50.0f);
  CHECK(config.layers.at(0).attention.window == 4096);
}

TEST_CASE("gemma2 of 46 layers scales its scores by d_model") {
  Metadata metadata = Metadata::of("gemma2");
  metadata.numbers["gemma2.block_count"] = 46;
  metadata.numbers["gemma2.embedding_length"] = 4608;
  metadata.numbers["gemma2.attention.head_count"] = 32;
  metadata.numbers["gemma2.attention.key_length"] = 128;
  metadata.numbers["gemma2.attention.value_length"] = 128;
  CHECK(metadata.read().layers.at(0).attention.scale == Approx(1 / std::sqrt(144.0)));
}
