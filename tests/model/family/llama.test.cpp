#include <foredraft/model/family/llama.hpp>

#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("a configuration is read, with the defaults of the format") {
  Metadata metadata;
  metadata.reals = {{"llama.rope.freq_base", 5e5f},
                    {"llama.attention.layer_norm_rms_epsilon", 1e-6f}};
  const fd::ModelConfig config = metadata.read();
  CHECK(config.family == "llama");
  REQUIRE(config.layers.size() == 2);
  CHECK(config.layers[1].attention.n_kv_heads == 2);
  CHECK(config.layers[1].attention.d_head == 16);
  CHECK(config.layers[1].attention.scale == 0.25f);
  CHECK(config.layers[1].feed_forward.d_ff == 96);
  REQUIRE(config.ropes.size() == 1);
  CHECK(config.ropes[0].n_rot == 16);
  CHECK(config.ropes[0].kind == fd::RopeKind::kAdjacent);
  CHECK(config.ropes[0].base == Approx(5e5));
  CHECK(config.norm_epsilon == 1e-6f);
  CHECK(config.cache_shape().n_ctx == 128);
}

TEST_CASE("heads side by side are a dimension, or the file is refused") {
  const auto with = [](std::uint32_t n_heads, std::uint32_t d_head) {
    Metadata metadata;
    metadata.numbers["llama.attention.head_count"] = n_heads;
    metadata.numbers["llama.attention.head_count_kv"] = 1;
    metadata.numbers["llama.attention.key_length"] = d_head;
    metadata.numbers["llama.rope.dimension_count"] = 2;
    metadata.numbers["llama.attention.value_length"] = d_head;
    return metadata;
  };
  const fd::ModelConfig config = with(6, 64).read();
  CHECK(config.layers[0].attention.d_q == 384);
  CHECK(config.layers[0].attention.d_kv == 64);
  CHECK(with(1024, fd::kMostHead).read().layers[0].attention.d_q == fd::Dim::kMost);
  CHECK(with(1025, fd::kMostHead).refused() == "corrupt-file");
  CHECK(with(65535, 65538).refused() == "corrupt-file");          // 65534 in 32 bits
  CHECK(with(65536 + 1, 65536 - 2).refused() == "corrupt-file");  // -65538
  CHECK(with(1 << 16, 1 << 16).refused() == "corrupt-file");      // 0
  CHECK(with(1, fd::kMostHead + 2).refused() == "corrupt-file");
}

TEST_CASE("metadata that changes the computation is refused unless it changes nothing") {
  const auto with = [](const std::string& key, float value) {
    Metadata metadata;
    metadata.reals["llama." + key] = value;
    return metadata.refused();
  };
  for (const std::string key :
       {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "embedding_scale",
        "residual_scale", "attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias",
        "rope.scaling.attn_factor", "rope.scaling.factor", "rope.scale_linear"}) {
    INFO(key);
    CHECK(with(key, 30.0f) == "unsupported-model");
    CHECK(with(key, 0.0f) == "none");
  }
  for (const std::string key : {"logit_scale", "embedding_scale", "residual_scale",
                                "rope.scaling.attn_factor", "rope.scaling.factor"}) {
    CHECK(with(key, 1.0f) == "none");
  }
  CHECK(with("attn_logit_softcapping", 1.0f) == "unsupported-model");
  CHECK(with("attention.scale", 0.25f) == "none");  // 1 / sqrt(16)

  Metadata window;
  for (const auto& [size, refused] :
       {std::pair(127u, "unsupported-model"), {128u, "none"}, {0u, "none"}}) {
    window.numbers["llama.attention.sliding_window"] = size;
    CHECK(window.refused() == refused);
  }
  for (const auto& [key, neutral] :
       {std::pair("llama.attention.causal", true), {"llama.use_parallel_residual", false}}) {
    Metadata metadata;
    metadata.flags[key] = neutral;
    CHECK(metadata.refused() == "none");
    metadata.flags[key] = !neutral;
    CHECK(metadata.refused() == "unsupported-model");
  }
  Metadata unscaled;  // the type says that the factor is not used
  unscaled.texts["llama.rope.scaling.type"] = "none";
  unscaled.reals["llama.rope.scaling.factor"] = 4.0f;
  CHECK(unscaled.read().ropes[0].scale == 1.0);
}
