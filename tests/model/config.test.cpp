#include <foredraft/model/config.hpp>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// Metadata of a llama model, with changes.
struct Metadata {
  std::map<std::string, std::uint32_t> numbers{
      {"llama.block_count", 2},          {"llama.context_length", 128},
      {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
      {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2}};
  std::map<std::string, float> reals{};
  std::map<std::string, std::string> texts{{"general.architecture", "llama"}};
  std::map<std::string, bool> flags{};

  fd::ModelConfig read() const {
    fd::GgufWriter writer;
    for (const auto& [key, value] : numbers) writer.add(key, value);
    for (const auto& [key, value] : reals) writer.add(key, value);
    for (const auto& [key, value] : texts) writer.add(key, value);
    for (const auto& [key, value] : flags) writer.add(key, value);
    const auto bytes = writer.bytes();
    return fd::read_config(fd::Gguf::parse(bytes));
  }

  std::string_view refused() const {
    try {
      read();
    } catch (const fd::Error& error) {
      return fd::name_of(error.code());
    }
    return "none";
  }
};

}  // namespace

TEST_CASE("a configuration is read, with the defaults of the format") {
  Metadata metadata;
  metadata.reals = {{"llama.rope.freq_base", 5e5f},
                    {"llama.attention.layer_norm_rms_epsilon", 1e-6f}};
  const fd::ModelConfig config = metadata.read();
  CHECK(config.family == "llama");
  CHECK(config.n_layers == 2);
  CHECK(config.n_kv_heads == 2);
  CHECK(config.d_head == 16);
  CHECK(config.n_rot == 16);
  CHECK(config.rope == fd::RopeKind::kAdjacent);
  CHECK(config.rope_base == Approx(5e5));
  CHECK(config.norm_epsilon == 1e-6f);
  CHECK(config.cache_shape().n_ctx == 128);
}

TEST_CASE("a damaged or unknown configuration is refused") {
  const auto with = [](const std::string& key, std::uint32_t value) {
    Metadata metadata;
    metadata.numbers[key] = value;
    return metadata.refused();
  };
  const auto without = [](const std::string& key) {
    Metadata metadata;
    metadata.numbers.erase(key);
    return metadata.refused();
  };
  CHECK(Metadata{}.refused() == "none");
  CHECK(with("llama.block_count", 0) == "corrupt-file");
  CHECK(with("llama.block_count", 0xffffffffu) == "corrupt-file");
  CHECK(without("llama.block_count") == "corrupt-file");
  CHECK(without("llama.embedding_length") == "corrupt-file");
  CHECK(with("llama.attention.head_count_kv", 3) == "corrupt-file");
  CHECK(with("llama.rope.dimension_count", 7) == "corrupt-file");
  CHECK(with("llama.rope.dimension_count", 18) == "corrupt-file");
  CHECK(with("llama.attention.value_length", 8) == "corrupt-file");
  CHECK(with("llama.expert_count", 8) == "unsupported-model");
  CHECK(with("llama.expert_count", 1) == "unsupported-model");
  CHECK(with("llama.expert_count", 0) == "none");

  Metadata family;
  family.texts["general.architecture"] = "mamba";
  CHECK(family.refused() == "unsupported-model");
  Metadata nameless;
  nameless.texts.clear();
  CHECK(nameless.refused() == "unsupported-model");
  Metadata scaled;
  scaled.texts["llama.rope.scaling.type"] = "yarn";
  CHECK(scaled.refused() == "unsupported-model");
  scaled.texts["llama.rope.scaling.type"] = "linear";
  scaled.reals["llama.rope.scaling.factor"] = 4.0f;
  CHECK(scaled.read().rope_scale == 0.25);
  scaled.reals["llama.rope.scaling.factor"] = 0.0f;
  CHECK(scaled.refused() == "corrupt-file");
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
  CHECK(config.d_q == 384);
  CHECK(config.d_kv == 64);
  CHECK(with(1024, fd::kMostHead).read().d_q == fd::Dim::kMost);
  CHECK(with(1025, fd::kMostHead).refused() == "corrupt-file");
  CHECK(with(65535, 65538).refused() == "corrupt-file");          // 65534 in 32 bits
  CHECK(with(65536 + 1, 65536 - 2).refused() == "corrupt-file");  // -65538
  CHECK(with(1 << 16, 1 << 16).refused() == "corrupt-file");      // 0
  CHECK(with(1, fd::kMostHead + 2).refused() == "corrupt-file");
}

TEST_CASE("an epsilon that no float holds is refused") {
  for (const double value : {1e300, 1e-300, 1.5, 0.0, -1e-5, std::nan(""), HUGE_VAL}) {
    fd::GgufWriter writer;
    const Metadata metadata;
    for (const auto& [key, number] : metadata.numbers) writer.add(key, number);
    writer.add("general.architecture", std::string("llama"));
    writer.add("llama.attention.layer_norm_rms_epsilon", value);
    const auto bytes = writer.bytes();
    CAPTURE(value);
    CHECK_THROWS_AS(fd::read_config(fd::Gguf::parse(bytes)), fd::Error);
  }
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
  CHECK(unscaled.read().rope_scale == 1.0);
}

TEST_CASE("adapters and parts of models are refused") {
  Metadata metadata;
  metadata.texts["general.type"] = "model";
  metadata.numbers["split.count"] = 1;
  CHECK(metadata.refused() == "none");
  metadata.numbers["split.count"] = 2;
  CHECK(metadata.refused() == "unsupported-model");
  metadata.numbers["split.count"] = 0;
  metadata.texts["general.type"] = "adapter";
  CHECK(metadata.refused() == "unsupported-model");
}
