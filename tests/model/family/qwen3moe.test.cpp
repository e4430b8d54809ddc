#include <foredraft/model/family/qwen3moe.hpp>

#include <string>

#include <foredraft/model/family/families.hpp>
#include <foredraft/model/layer_stack.hpp>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

namespace {

Metadata with_experts() {
  Metadata metadata = Metadata::of("qwen3moe");
  metadata.numbers["qwen3moe.expert_count"] = 8;
  metadata.numbers["qwen3moe.expert_used_count"] = 2;
  metadata.numbers["qwen3moe.expert_feed_forward_length"] = 48;
  return metadata;
}

}  // namespace

TEST_CASE("qwen3moe: each layer mixes experts of their own width") {
  const fd::ModelConfig config = with_experts().read();
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  for (const fd::LayerShape& layer : config.layers) {
    CHECK(layer.feed_forward.n_experts == 8);
    CHECK(layer.feed_forward.n_used == 2);
    CHECK(layer.feed_forward.d_ff == 48);
  }
}

TEST_CASE("qwen3moe: numbers of experts are held to what they can be") {
  const auto with = [](const std::string& key, std::uint32_t value) {
    Metadata metadata = with_experts();
    metadata.numbers["qwen3moe." + key] = value;
    return metadata.refused();
  };
  CHECK(with("expert_used_count", 8) == "none");
  CHECK(with("expert_used_count", 9) == "corrupt-file");
  CHECK(with("expert_used_count", 0) == "corrupt-file");
  CHECK(with("expert_count", 0) == "corrupt-file");
  CHECK(with("expert_count", 1u << 20) == "corrupt-file");
  CHECK(with("expert_feed_forward_length", 1u << 25) == "corrupt-file");  // times 8
  CHECK(with("expert_feed_forward_length", 40) == "unsupported-model");
  CHECK(with("expert_shared_count", 1) == "unsupported-model");
}

TEST_CASE("a backend without mixtures refuses a layer that is one") {
  static_assert(!fd::MixesExperts<archetype::RemoteBackend::Worker>);
  using Stack = fd::LayerStack<archetype::RemoteBackend>;
  fd::LayerShape dense;
  CHECK(Stack(8, 1e-5f, {}, {dense}, {}).size() == 1);
  fd::LayerShape mixture;
  mixture.feed_forward.n_experts = 4;
  try {
    Stack(8, 1e-5f, {}, {dense, mixture}, {});
    FAIL("no error");
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
  }
}
