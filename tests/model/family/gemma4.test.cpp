#include <foredraft/model/family/gemma4.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/io/gguf_writer.hpp>
#include <foredraft/model/family/families.hpp>
#include <foredraft/model/load.hpp>

#include "concepts/remote_backend.hpp"
#include "support/catch.hpp"
#include "support/load_reference.hpp"
#include "support/throws.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// The keys of Gemma 4 E2B, with fewer layers.
struct Keys {
  std::vector<bool> windows{true, true, false, true, false};
  std::vector<std::int32_t> kv_heads{1, 1, 1, 1, 1};
  std::vector<std::int32_t> d_ff{6144, 6144, 6144, 12288, 12288};
  std::uint32_t n_shared = 2;
  std::uint32_t d_input = 256;
  std::uint32_t value_length = 512;
  float softcap = 30.0f;
  float base = 1e6f;
  std::uint32_t n_experts = 0;
  float scale = 0.0f;

  fd::ModelConfig read() const {
    fd::GgufWriter writer;
    writer.add("general.architecture", std::string("gemma4"));
    const auto number = [&](const char* key, std::uint32_t value) {
      writer.add(std::string("gemma4.") + key, value);
    };
    number("block_count", 5);
    number("context_length", 131072);
    number("embedding_length", 1536);
    writer.add_array("gemma4.feed_forward_length", d_ff);
    number("attention.head_count", 8);
    writer.add_array("gemma4.attention.head_count_kv", kv_heads);
    number("attention.key_length", 512);
    number("attention.value_length", value_length);
    number("attention.key_length_swa", 256);
    number("attention.value_length_swa", 256);
    number("rope.dimension_count", 512);
    number("rope.dimension_count_swa", 256);
    number("attention.sliding_window", 512);
    writer.add_array("gemma4.attention.sliding_window_pattern", windows);
    number("attention.shared_kv_layers", n_shared);
    number("embedding_length_per_layer_input", d_input);
    if (n_experts > 0) number("expert_count", n_experts);
    writer.add("gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
    writer.add("gemma4.rope.freq_base", base);
    writer.add("gemma4.rope.freq_base_swa", 1e4f);
    writer.add("gemma4.final_logit_softcapping", softcap);
    if (scale != 0.0f) writer.add("gemma4.attention.scale", scale);
    const auto bytes = writer.bytes();
    return fd::read_config(fd::Gguf::parse(bytes));
  }
};

}  // namespace

TEST_CASE("layers of gemma4 have two sizes of heads, and the last ones the keys of others") {
  const fd::ModelConfig config = Keys{}.read();
  REQUIRE(config.layers.size() == 5);
  const std::vector<int> sources{-1, -1, -1, 1, 2};
  for (std::size_t n = 0; n < 5; ++n) {
    CAPTURE(n);
    const auto& [attention, feed_forward, recurrent] = config.layers[n];
    const bool full = n == 2 || n == 4;
    CHECK(attention.d_head == (full ? 512 : 256));
    CHECK(attention.d_q == (full ? 4096 : 2048));
    CHECK(attention.window == (full ? 0 : 512));
    CHECK(attention.scale == 1.0f);
    CHECK(attention.keys_of == sources[n]);
    const fd::RopeShape& rope = config.ropes.at(fd::idx(attention.rope));
    CHECK(rope.base == (full ? 1e6 : 1e4));
    CHECK(rope.factored == full);
    CHECK(feed_forward.d_ff == (n < 3 ? 6144 : 12288));
    CHECK(feed_forward.activation == fd::Activation::kGeluTanh);
  }
  CHECK(config.embedding_scale == std::sqrt(1536.0f));
  CHECK(config.logit_softcap == 30.0f);
  CHECK(config.d_input == 256);
  // What shares keys stores none.
  CHECK(config.cache_shape().layers ==
        std::vector<fd::KeyValueShape>{{1, 256, 512}, {1, 256, 512}, {1, 512, 0}});
  CHECK(Keys{.softcap = 0.0f}.read().logit_softcap == 0.0f);
  CHECK(Keys{.n_shared = 0, .d_input = 0}.read().cache_shape().layers.size() == 5);
}

TEST_CASE("what no gemma4 can be is refused") {
  const auto code = [](const Keys& keys) { return code_of([&] { keys.read(); }); };
  CHECK(code({}) == std::nullopt);
  CHECK(code({.windows = {true, false}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kv_heads = {1, 1, 0, 1, 1}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.kv_heads = {1, 1, 3, 1, 1}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.d_ff = {0, 1, 1, 1, 1}}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.value_length = 256}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.base = 0.0f}) == fd::ErrorCode::kCorruptFile);
  CHECK(code({.d_input = 1u << 26}) == fd::ErrorCode::kCorruptFile);
  // No earlier layer of the kind, or one of other heads.
  for (const std::uint32_t n_shared : {3u, 5u, 1000u}) {
    CHECK(code({.n_shared = n_shared}) == fd::ErrorCode::kUnsupportedModel);
  }
  CHECK(code({.kv_heads = {1, 1, 1, 2, 1}}) == fd::ErrorCode::kUnsupportedModel);
  CHECK(code({.n_experts = 128}) == fd::ErrorCode::kUnsupportedModel);
  CHECK(code({.scale = 0.5f}) == fd::ErrorCode::kUnsupportedModel);
}

TEST_CASE("a file of gemma4 has to say which part of a head turns") {
  fd::Reference reference;
  const auto load = [&](const TinyModel& tiny) {
    const auto bytes = tiny.file();
    return fd::load(reference, fd::Gguf::parse(bytes));
  };
  TinyModel tiny{.family = "gemma4", .n_layers = 4};
  CHECK(load(tiny).shape().layers == std::vector<fd::KeyValueShape>{{2, 16, 8}, {1, 32, 0}});
  tiny.without = "rope_freqs.weight";
  CHECK(code_of([&] { load(tiny); }) == fd::ErrorCode::kShapeMismatch);
}

TEST_CASE("a backend that knows whole layers alone refuses others") {
  static_assert(!fd::RunsPartialLayers<archetype::RemoteBackend::Worker>);
  static_assert(fd::EmbedsLayers<fd::Reference::Worker>);
  const auto bytes = TinyModel{.family = "gemma4", .type = fd::TensorType::kF32}.file();
  archetype::RemoteBackend remote;
  CHECK(code_of([&] { (void)fd::load(remote, fd::Gguf::parse(bytes)); }) ==
        fd::ErrorCode::kUnsupportedModel);
}
