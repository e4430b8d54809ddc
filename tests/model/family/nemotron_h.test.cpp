#include <foredraft/model/family/nemotron_h.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

/// The keys of Nemotron-H 8B, with fewer layers.
struct Keys {
  std::vector<std::int32_t> kv_heads{0, 0, 8, 0};
  std::vector<std::int32_t> d_ff{0, 21504, 0, 0};
  std::uint32_t n_groups = 8;
  bool turns = false;

  fd::ModelConfig read() const {
    fd::GgufWriter writer;
    writer.add("general.architecture", std::string("nemotron_h"));
    const auto number = [&](const char* key, std::uint32_t value) {
      writer.add(std::string("nemotron_h.") + key, value);
    };
    number("block_count", 4);
    number("context_length", 1u << 20);
    number("embedding_length", 4096);
    writer.add_array("nemotron_h.feed_forward_length", d_ff);
    number("attention.head_count", 32);
    writer.add_array("nemotron_h.attention.head_count_kv", kv_heads);
    number("attention.key_length", 128);
    number("attention.value_length", 128);
    writer.add("nemotron_h.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.add("nemotron_h.rope.scaling.finetuned", turns);
    number("ssm.conv_kernel", 4);
    number("ssm.inner_size", 8192);
    number("ssm.state_size", 128);
    number("ssm.time_step_rank", 128);
    number("ssm.group_count", n_groups);
    const auto bytes = writer.bytes();
    return fd::read_config(fd::Gguf::parse(bytes));
  }
};

}  // namespace

TEST_CASE("a layer of nemotron_h is a scan, attention or a feed-forward part, and nothing else") {
  const fd::ModelConfig config = Keys{}.read();
  REQUIRE(config.layers.size() == 4);
  for (const std::size_t n : {0, 3}) {
    const auto& scan = std::get<fd::SelectiveScanShape>(config.layers[n].recurrent);
    CHECK(scan.n_groups == 8);
    CHECK(scan.d_head == 64);
    CHECK(config.layers[n].feed_forward.d_ff == 0);
    CHECK_FALSE(config.layers[n].attends());
  }
  CHECK_FALSE(config.layers[1].attends());
  CHECK_FALSE(config.layers[1].recurs());
  CHECK(config.layers[1].feed_forward.d_ff == 21504);
  CHECK(config.layers[1].feed_forward.activation == fd::Activation::kReluSquared);
  CHECK(config.layers[2].attends());
  CHECK(config.layers[2].attention.d_q == 4096);
  CHECK(config.layers[2].attention.d_kv == 1024);
  CHECK(config.layers[2].feed_forward.d_ff == 0);
  CHECK(config.ropes.at(fd::idx(config.layers[2].attention.rope)).n_rot == 0);
  CHECK(config.cache_shape().layers == std::vector<fd::KeyValueShape>{{8, 128}});
  CHECK(config.cache_shape().states.size() == 2);
}

TEST_CASE("what no nemotron_h can be is refused") {
  const auto code = [](const Keys& keys) { return code_of([&] { keys.read(); }); };
  CHECK(code({}) == std::nullopt);
  CHECK(code({.kv_heads = {0, 8, 8, 0}}) == fd::ErrorCode::kCorruptFile);  // both in one layer
  CHECK(code({.kv_heads = {0, 0, 5, 0}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.d_ff = {0, 1}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.n_groups = 7}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.turns = true}) == fd::ErrorCode::kUnsupportedModel);
}
