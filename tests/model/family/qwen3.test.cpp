#include <foredraft/model/family/qwen3.hpp>

#include <cmath>
#include <string>

#include <foredraft/model/family/families.hpp>
#include <foredraft/model/yarn.hpp>

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

TEST_CASE("qwen3 over a context that YaRN has stretched") {
  Metadata metadata = Metadata::of("qwen3");
  metadata.texts["qwen3.rope.scaling.type"] = "yarn";
  CHECK(metadata.refused() == "corrupt-file");  // by how much is not said
  metadata.reals["qwen3.rope.scaling.factor"] = 4.0f;
  metadata.numbers["qwen3.rope.scaling.original_context_length"] = 32;
  const fd::RopeShape rope = metadata.read().ropes.at(0);
  CHECK(rope.scale == 1.0);
  CHECK(rope.magnitude == Approx(1 + 0.1 * std::log(4.0)));
  const fd::Yarn yarn{.factor = 4.0, .original = 32.0};
  CHECK(rope.stretch == yarn.stretch(16, 10000.0));
  metadata.reals["qwen3.rope.scaling.yarn_beta_fast"] = 8.0f;
  metadata.reals["qwen3.rope.scaling.yarn_beta_slow"] = 0.5f;
  CHECK(metadata.read().ropes.at(0).stretch != rope.stretch);
  for (const std::string key : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                                "rope.scaling.yarn_log_multiplier", "rope.scaling.attn_factor"}) {
    Metadata other = metadata;
    other.reals["qwen3." + key] = 0.5f;
    CHECK(other.refused() == "unsupported-model");
  }
}
