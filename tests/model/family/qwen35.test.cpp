#include <foredraft/model/family/qwen35.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

namespace {

/// The keys of Qwen3.5-0.8B, with a layer that predicts a further token.
Metadata of_0_8b() {
  Metadata metadata;
  metadata.texts = {{"general.architecture", "qwen35"}};
  metadata.numbers.clear();
  for (const auto& [key, value] : {std::pair<std::string, std::uint32_t>{"block_count", 25},
                                   {"nextn_predict_layers", 1},
                                   {"context_length", 262144},
                                   {"embedding_length", 1024},
                                   {"feed_forward_length", 3584},
                                   {"attention.head_count", 8},
                                   {"attention.head_count_kv", 2},
                                   {"attention.key_length", 256},
                                   {"attention.value_length", 256},
                                   {"rope.dimension_count", 64},
                                   {"full_attention_interval", 4},
                                   {"ssm.conv_kernel", 4},
                                   {"ssm.state_size", 128},
                                   {"ssm.group_count", 16},
                                   {"ssm.time_step_rank", 16},
                                   {"ssm.inner_size", 2048}}) {
    metadata.numbers["qwen35." + key] = value;
  }
  metadata.reals = {{"qwen35.rope.freq_base", 1e7f}};
  return metadata;
}

std::string_view with(const std::string& key, std::uint32_t value) {
  Metadata metadata = of_0_8b();
  metadata.numbers["qwen35." + key] = value;
  return metadata.refused();
}

}  // namespace

TEST_CASE("qwen35: three delta nets and a gated attention in turn, and no layer that predicts") {
  const fd::ModelConfig config = of_0_8b().read();
  REQUIRE(config.layers.size() == 24);
  CHECK(config.n_left_layers == 1);
  for (std::size_t n = 0; n < config.layers.size(); ++n) {
    CHECK(config.layers[n].attends() == (n % 4 == 3));
    CHECK(config.layers[n].attention.gated == (n % 4 == 3));
    CHECK(config.layers[n].feed_forward.d_ff == 3584);
  }
  CHECK(config.layers[3].attention.d_q == 2048);
  CHECK(config.ropes.at(0).n_rot == 64);
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  const auto& net = std::get<fd::GatedDeltaNetShape>(config.layers[0].recurrent);
  CHECK((net.width == 2048 && net.n_heads == 16 && net.n_key_heads == 16));
  CHECK((net.d_key == 128 && net.d_value == 128 && net.kernel == 4 && net.tiled));
  const fd::CacheShape shape = config.cache_shape();
  CHECK(shape.layers.size() == 6);
  REQUIRE(shape.states.size() == 18);
  CHECK(shape.states[0].n_inputs == 2 * 6144 + 32);
}

TEST_CASE("what no qwen35 can be is refused") {
  CHECK(of_0_8b().refused() == "none");
  CHECK(with("ssm.time_step_rank", 24) == "corrupt-file");  // no multiple of the key heads
  CHECK(with("ssm.time_step_rank", 48) == "corrupt-file");  // 2048 is no multiple of it
  CHECK(with("ssm.conv_kernel", fd::kMostTaps + 1) == "corrupt-file");
  CHECK(with("ssm.state_size", fd::Dim::kMost) == "corrupt-file");
  CHECK(with("ssm.inner_size", fd::Dim::kMost - 15) == "corrupt-file");
  CHECK(with("full_attention_interval", 0) == "corrupt-file");
  CHECK(with("nextn_predict_layers", 25) == "corrupt-file");
  CHECK(with("attention.recurrent_layers", 1) == "unsupported-model");
  CHECK(with("expert_count", 4) == "unsupported-model");
  CHECK(with("rope.dimension_count", 63) == "corrupt-file");
}

TEST_CASE("qwen35moe: experts, and one that all rows take") {
  Metadata metadata = of_0_8b();
  Metadata mixture;
  mixture.texts = {{"general.architecture", "qwen35moe"}};
  mixture.numbers.clear();
  for (const auto& [key, value] : metadata.numbers) {
    if (key != "qwen35.feed_forward_length") mixture.numbers["qwen35moe" + key.substr(6)] = value;
  }
  CHECK(mixture.refused() == "corrupt-file");
  mixture.numbers["qwen35moe.expert_count"] = 256;
  mixture.numbers["qwen35moe.expert_used_count"] = 8;
  mixture.numbers["qwen35moe.expert_feed_forward_length"] = 512;
  CHECK(mixture.refused() == "corrupt-file");
  mixture.numbers["qwen35moe.expert_shared_feed_forward_length"] = 640;
  const fd::ModelConfig config = mixture.read();
  const fd::FeedForwardShape& f = config.layers[7].feed_forward;
  CHECK((f.d_ff == 512 && f.n_experts == 256 && f.n_used == 8 && f.d_shared == 640));
}
