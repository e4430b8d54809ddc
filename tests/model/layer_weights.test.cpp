#include <foredraft/model/layer_weights.hpp>

#include <string>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/model/weights.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

void check_layers(const fd::Gguf& file) {
  fd::ModelConfig config = fd::read_config(file);
  config.n_vocab = fd::Dim(static_cast<int>(file.find_tensor("token_embd.weight")->shape[1]));
  fd::Reference backend;
  const auto weights = fd::read_weights(backend, file, config);
  REQUIRE(weights.layers.size() == config.layers.size());
  for (std::size_t n = 0; n < config.layers.size(); ++n) {
    CAPTURE(n);
    const auto& [norm, attention, recurrent, feed_forward, input, output_scale] = weights.layers[n];
    const fd::LayerShape& shape = config.layers[n];
    CHECK((attention.wq.rows() > 0) == shape.attends());
    CHECK((attention.wo.rows() > 0) == shape.attends());
    CHECK((attention.wk.rows() > 0) == shape.stores());
    CHECK((attention.wv.rows() > 0) == (shape.stores() && !attention.v_from_k));
    CHECK((attention.gate.rows() > 0) == (shape.attends() && shape.attention.gated));
    CHECK(recurrent.index() == shape.recurrent.index());
    const bool feeds = shape.feed_forward.d_ff > 0;
    CHECK((feed_forward.gate.rows() > 0) == feeds);
    CHECK((feed_forward.up.rows() > 0) == (feeds && feed_forward.has_up));
    CHECK((feed_forward.down.rows() > 0) == feeds);
    CHECK(feed_forward.router.has_value() == (shape.feed_forward.n_experts > 0));
    CHECK(feed_forward.shared.has_value() == (shape.feed_forward.d_shared > 0));
    CHECK(input.has_value() == (config.d_input > 0));
  }
}

}  // namespace

TEST_CASE("a layer has the weights of the parts that its shape has, and no others") {
  for (const char* family : {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4", "granite",
                             "olmo2", "phi3", "qwen3moe", "qwen35", "qwen3next"}) {
    CAPTURE(family);
    const auto bytes = TinyModel{.family = family, .n_layers = 4}.file();
    check_layers(fd::Gguf::parse(bytes));
  }
  for (const std::string family : {"lfm2", "mamba2", "nemotron_h"}) {
    CAPTURE(family);
    check_layers(fd::Gguf::open(test_file("golden/recurrent/" + family + ".gguf")));
  }
}
