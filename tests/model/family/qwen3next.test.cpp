#include <foredraft/model/family/qwen3next.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("qwen3next: keys serve heads side by side, and every layer mixes experts") {
  Metadata metadata = Metadata::of("qwen3next");
  metadata.numbers.erase("qwen3next.feed_forward_length");
  for (const auto& [key, value] : {std::pair<std::string, std::uint32_t>{"ssm.conv_kernel", 4},
                                   {"block_count", 4},
                                   {"ssm.state_size", 16},
                                   {"ssm.group_count", 2},
                                   {"ssm.time_step_rank", 4},
                                   {"ssm.inner_size", 64},
                                   {"expert_count", 8},
                                   {"expert_used_count", 2},
                                   {"expert_feed_forward_length", 32},
                                   {"expert_shared_feed_forward_length", 48}}) {
    metadata.numbers["qwen3next." + key] = value;
  }
  const fd::ModelConfig config = metadata.read();
  REQUIRE(config.layers.size() == 4);
  CHECK(config.layers[3].attention.gated);
  const auto& net = std::get<fd::GatedDeltaNetShape>(config.layers[2].recurrent);
  CHECK_FALSE(net.tiled);
  CHECK(net.d_value == 16);
  for (const fd::LayerShape& layer : config.layers) {
    CHECK((layer.feed_forward.n_experts == 8 && layer.feed_forward.d_shared == 48));
  }
  metadata.numbers["qwen3next.expert_feed_forward_length"] = 40;
  CHECK(metadata.refused() == "unsupported-model");
}
