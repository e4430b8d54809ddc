#include <foredraft/model/family/lfm2.hpp>

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

/// The keys of LFM2 350M, with fewer layers.
struct Keys {
  std::vector<std::int32_t> kv_heads{0, 0, 8, 0};
  std::uint32_t kernel = 3;
  std::uint32_t n_heads = 16;
  bool one_number = false;

  fd::ModelConfig read() const {
    fd::GgufWriter writer;
    writer.add("general.architecture", std::string("lfm2"));
    writer.add("lfm2.block_count", std::uint32_t{4});
    writer.add("lfm2.context_length", std::uint32_t{128000});
    writer.add("lfm2.embedding_length", std::uint32_t{1024});
    writer.add("lfm2.feed_forward_length", std::uint32_t{4608});
    writer.add("lfm2.attention.head_count", n_heads);
    if (one_number) {
      writer.add("lfm2.attention.head_count_kv", std::uint32_t{8});
    } else {
      writer.add_array("lfm2.attention.head_count_kv", kv_heads);
    }
    writer.add("lfm2.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.add("lfm2.rope.freq_base", 1e6f);
    writer.add("lfm2.shortconv.l_cache", kernel);
    const auto bytes = writer.bytes();
    return fd::read_config(fd::Gguf::parse(bytes));
  }
};

}  // namespace

TEST_CASE("layers of lfm2 without heads for keys and values are convolutions") {
  const fd::ModelConfig config = Keys{}.read();
  REQUIRE(config.layers.size() == 4);
  for (const std::size_t n : {0, 1, 3}) {
    const auto& conv = std::get<fd::ShortConvShape>(config.layers[n].recurrent);
    CHECK(conv.width == 1024);
    CHECK(conv.kernel == 3);
    CHECK(config.layers[n].feed_forward.d_ff == 4608);
  }
  const fd::AttentionShape& a = config.layers[2].attention;
  CHECK(config.layers[2].attends());
  CHECK(a.n_heads == 16);
  CHECK(a.n_kv_heads == 8);
  CHECK(a.d_head == 64);
  CHECK(a.d_q == 1024);
  CHECK(a.d_kv == 512);
  CHECK(a.scale == 0.125f);
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  CHECK(config.output_norm == "token_embd_norm.weight");
  CHECK(config.cache_shape().layers == std::vector<fd::KeyValueShape>{{8, 64}});
  CHECK(config.cache_shape().states.size() == 3);
}

TEST_CASE("one number of heads stands for all layers") {
  const fd::ModelConfig config = Keys{.one_number = true}.read();
  for (const fd::LayerShape& layer : config.layers) CHECK(layer.attends());
}

TEST_CASE("what no lfm2 can be is refused") {
  const auto code = [](const Keys& keys) { return code_of([&] { keys.read(); }); };
  CHECK(code({}) == std::nullopt);
  CHECK(code({.kv_heads = {0, 8, 0}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kv_heads = {0, -8, 0, 0}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kv_heads = {0, 5, 0, 0}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kernel = 0}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kernel = fd::kMostTaps + 1}) == fd::ErrorCode::kCorruptFile);
}
