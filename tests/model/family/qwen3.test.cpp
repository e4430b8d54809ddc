#include <foredraft/model/family/qwen3.hpp>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("qwen3 turns halves, and its heads are as large as the file says") {
  Metadata metadata = Metadata::of("qwen3");
  metadata.numbers["qwen3.attention.key_length"] = 32;
  metadata.numbers["qwen3.attention.value_length"] = 32;
  metadata.reals["qwen3.rope.freq_base"] = 1e6f;
  const fd::ModelConfig config = metadata.read();
  CHECK(config.family == "qwen3");
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  CHECK(config.ropes.at(0).base == 1e6);
  CHECK(config.layers.at(1).attention.d_q == 128);  // 4 heads; d_model is 64
  CHECK_FALSE(config.layers.at(1).attention.norms_all_heads);
}

TEST_CASE("qwen3 over a stretched context is refused") {
  Metadata metadata = Metadata::of("qwen3");
  metadata.texts["qwen3.rope.scaling.type"] = "yarn";
  metadata.reals["qwen3.rope.scaling.factor"] = 4.0f;
  CHECK(metadata.refused() == "unsupported-model");
}
