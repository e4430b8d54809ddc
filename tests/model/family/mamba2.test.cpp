#include <foredraft/model/family/mamba2.hpp>

#include <cstdint>
#include <string>
#include <variant>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

namespace {

/// The keys of mamba2-130m.
Metadata of_130m() {
  Metadata metadata;
  metadata.texts = {{"general.architecture", "mamba2"}};
  metadata.numbers = {{"mamba2.block_count", 24},         {"mamba2.context_length", 1048576},
                      {"mamba2.embedding_length", 768},   {"mamba2.feed_forward_length", 0},
                      {"mamba2.attention.head_count", 0}, {"mamba2.ssm.conv_kernel", 4},
                      {"mamba2.ssm.inner_size", 1536},    {"mamba2.ssm.state_size", 128},
                      {"mamba2.ssm.time_step_rank", 24},  {"mamba2.ssm.group_count", 1}};
  metadata.reals = {{"mamba2.attention.layer_norm_rms_epsilon", 1e-5f}};
  return metadata;
}

}  // namespace

TEST_CASE("every layer of mamba2 is a scan and nothing else") {
  const fd::ModelConfig config = of_130m().read();
  REQUIRE(config.layers.size() == 24);
  const auto& scan = std::get<fd::SelectiveScanShape>(config.layers.back().recurrent);
  CHECK(scan.width == 1536);
  CHECK(scan.n_heads == 24);
  CHECK(scan.d_head == 64);
  CHECK(scan.d_state == 128);
  CHECK(scan.n_groups == 1);
  CHECK(scan.kernel == 4);
  CHECK(config.layers.back().feed_forward.d_ff == 0);
  CHECK(config.ropes.empty());
  const fd::CacheShape shape = config.cache_shape();
  CHECK(shape.layers.empty());
  CHECK(shape.states.size() == 24);
  CHECK(shape.states[0].d_state == 64 * 128);
}

TEST_CASE("what no mamba2 can be is refused") {
  const auto with = [](const char* key, std::uint32_t value) {
    Metadata metadata = of_130m();
    metadata.numbers[std::string("mamba2.") + key] = value;
    return metadata.refused();
  };
  CHECK(of_130m().refused() == "none");
  CHECK(with("ssm.time_step_rank", 25) == "corrupt-file");
  CHECK(with("ssm.group_count", 5) == "corrupt-file");
  CHECK(with("ssm.conv_kernel", fd::kMostTaps + 1) == "corrupt-file");
  CHECK(with("ssm.state_size", fd::Dim::kMost) == "corrupt-file");
  CHECK(with("ssm.inner_size", fd::Dim::kMost - 16) == "corrupt-file");
  Metadata normed = of_130m();
  normed.flags["mamba2.ssm.dt_b_c_rms"] = true;
  CHECK(normed.refused() == "unsupported-model");
}
