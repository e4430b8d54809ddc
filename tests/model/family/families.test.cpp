#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

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
  CHECK(with("llama.block_count", fd::kMostLayers + 1) == "corrupt-file");
  CHECK(with("llama.block_count", fd::kMostLayers) == "none");
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
  CHECK(fd::family::All::names() ==
        "llama, mistral3, qwen2, qwen3, qwen3moe, qwen3next, qwen35, qwen35moe, gemma2, gemma3, "
        "gemma4, "
        "granite, olmo2, phi3, lfm2, mamba2 or nemotron_h");
  Metadata nameless;
  nameless.texts.clear();
  CHECK(nameless.refused() == "unsupported-model");
  Metadata scaled;
  scaled.texts["llama.rope.scaling.type"] = "yarn";
  CHECK(scaled.refused() == "unsupported-model");
  scaled.texts["llama.rope.scaling.type"] = "linear";
  scaled.reals["llama.rope.scaling.factor"] = 4.0f;
  CHECK(scaled.read().ropes[0].scale == 0.25);
  scaled.reals["llama.rope.scaling.factor"] = 0.0f;
  CHECK(scaled.refused() == "corrupt-file");
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
