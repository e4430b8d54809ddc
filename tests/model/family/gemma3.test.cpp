#include <foredraft/model/family/gemma3.hpp>

#include <cmath>
#include <string>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/model/family/families.hpp>
#include <foredraft/model/load.hpp>

#include "support/catch.hpp"
#include "support/load_reference.hpp"
#include "support/metadata.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// The keys of gemma-3-270m, and no others.
Metadata of_270m() {
  Metadata metadata;
  metadata.texts = {{"general.architecture", "gemma3"}};
  metadata.numbers = {{"gemma3.block_count", 18},
                      {"gemma3.context_length", 32768},
                      {"gemma3.embedding_length", 640},
                      {"gemma3.feed_forward_length", 2048},
                      {"gemma3.attention.head_count", 4},
                      {"gemma3.attention.head_count_kv", 1},
                      {"gemma3.attention.key_length", 256},
                      {"gemma3.attention.value_length", 256},
                      {"gemma3.attention.sliding_window", 512}};
  metadata.reals = {{"gemma3.rope.freq_base", 1e6f},
                    {"gemma3.attention.layer_norm_rms_epsilon", 1e-6f}};
  return metadata;
}

}  // namespace

TEST_CASE("every sixth layer of gemma3 sees all positions and turns slowly") {
  const fd::ModelConfig config = of_270m().read();
  REQUIRE(config.layers.size() == 18);
  REQUIRE(config.ropes.size() == 2);
  for (std::size_t n = 0; n < config.layers.size(); ++n) {
    CAPTURE(n);
    const auto& [attention, feed_forward, recurrent] = config.layers[n];
    const bool full = n == 5 || n == 11 || n == 17;
    CHECK(attention.window == (full ? 0 : 512));
    CHECK(config.ropes[fd::idx(attention.rope)].base == (full ? 1e6 : 1e4));
    CHECK(attention.scale == 1.0f / 16);
    CHECK(feed_forward.activation == fd::Activation::kGeluTanh);
  }
  for (const fd::RopeShape& rope : config.ropes) CHECK(rope.kind == fd::RopeKind::kHalves);
  CHECK(config.embedding_scale == std::sqrt(640.0f));
  CHECK(config.cache_shape().layers[5] == fd::KeyValueShape{1, 256, 0});
  CHECK(config.cache_shape().layers[6] == fd::KeyValueShape{1, 256, 512});
}

TEST_CASE("gemma3: bases of rotation have two names, and that of full layers has no default") {
  Metadata metadata = of_270m();
  metadata.reals.erase("gemma3.rope.freq_base");
  CHECK_THROWS_AS(metadata.read(), fd::Error);
  metadata.reals["gemma3.rope.global.freq_base"] = 2e6f;
  metadata.reals["gemma3.rope.local.freq_base"] = 3e4f;
  const fd::ModelConfig config = metadata.read();
  CHECK(config.ropes[0].base == 2e6);
  CHECK(config.ropes[1].base == 3e4);
}

TEST_CASE("gemma3: what a file says of windows and positions is followed") {
  Metadata metadata = of_270m();
  metadata.numbers["gemma3.attention.sliding_window_pattern"] = 2;
  metadata.reals["gemma3.rope.freq_base_swa"] = 5000.0f;
  metadata.texts["gemma3.rope.scaling.type"] = "linear";
  metadata.reals["gemma3.rope.scaling.factor"] = 8.0f;
  const fd::ModelConfig config = metadata.read();
  for (std::size_t n = 0; n < config.layers.size(); ++n)
    CHECK(config.layers[n].attention.window == (n % 2 == 0 ? 512 : 0));
  CHECK(config.ropes.at(0).scale == 0.125);  // of full layers alone
  CHECK(config.ropes.at(1).scale == 1.0);
  CHECK(config.ropes.at(1).base == 5000.0);

  metadata.numbers.erase("gemma3.attention.sliding_window_pattern");
  metadata.texts["gemma3.attention.sliding_window_pattern"] = "LLLLLG";
  CHECK(metadata.refused() == "corrupt-file");
  metadata.texts.erase("gemma3.attention.sliding_window_pattern");
  CHECK(metadata.refused() == "none");
  metadata.numbers.erase("gemma3.attention.sliding_window");
  CHECK(metadata.refused() == "corrupt-file");
  Metadata soft_capped = of_270m();
  soft_capped.reals["gemma3.final_logit_softcapping"] = 30.0f;
  CHECK(soft_capped.refused() == "unsupported-model");
}

TEST_CASE("gemma3 of 62 layers scales its scores by d_model") {
  Metadata metadata = of_270m();
  metadata.numbers["gemma3.block_count"] = 62;
  metadata.numbers["gemma3.embedding_length"] = 5376;
  metadata.numbers["gemma3.attention.head_count"] = 32;
  metadata.numbers["gemma3.attention.key_length"] = 128;
  metadata.numbers["gemma3.attention.value_length"] = 128;
  CHECK(metadata.read().layers.at(0).attention.scale == Approx(1 / std::sqrt(168.0)));
}

TEST_CASE("norms that a family does not have are not left out in silence") {
  fd::Reference reference;
  const auto load = [&](const TinyModel& tiny) {
    const auto bytes = tiny.file();
    return fd::load(reference, fd::Gguf::parse(bytes));
  };
  TinyModel tiny;
  tiny.family = "gemma3";
  CHECK(load(tiny).config().family == "gemma3");
  TinyModel other;
  other.more_vectors = {"blk.0.post_attention_norm.weight"};
  CHECK_THROWS_AS(load(other), fd::Error);
}
