#include <foredraft/model/config.hpp>

#include <map>
#include <string>

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

  fd::ModelConfig read() const {
    fd::GgufWriter writer;
    for (const auto& [key, value] : numbers) writer.add(key, value);
    for (const auto& [key, value] : reals) writer.add(key, value);
    for (const auto& [key, value] : texts) writer.add(key, value);
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
