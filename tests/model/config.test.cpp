#include <foredraft/model/config.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a cache is shaped by each layer") {
  fd::ModelConfig config;
  config.n_ctx = 99;
  config.layers = {{.attention = {.n_kv_heads = 2, .d_head = 64}},
                   {.attention = {.n_kv_heads = 1, .d_head = 256, .window = 5}}};
  const fd::CacheShape shape = config.cache_shape();
  CHECK(shape.n_ctx == 99);
  CHECK(shape.layers == std::vector<fd::KeyValueShape>{{2, 64}, {1, 256, 5}});
}

TEST_CASE("a recurrent layer has a state in place of keys and values") {
  fd::ModelConfig config;
  config.n_ctx = 99;
  config.layers = {{.recurrent = fd::ShortConvShape{.width = 64, .kernel = 3}},
                   {.attention = {.n_kv_heads = 2, .d_head = 64}}};
  CHECK_FALSE(config.layers[0].attends());
  CHECK(config.layers[1].attends());
  const fd::CacheShape shape = config.cache_shape();
  CHECK(shape.layers == std::vector<fd::KeyValueShape>{{2, 64}});
  CHECK(shape.states == std::vector<fd::StateShape>{{.n_inputs = 64, .window = 2}});
}

TEST_CASE("a layer that reads another's keys stores none, and one may have neither part") {
  fd::ModelConfig config;
  config.layers = {{.attention = {.n_kv_heads = 2, .d_head = 64}},
                   {.attention = {.n_kv_heads = 2, .d_head = 64, .keys_of = 0}},
                   {.feed_forward = {.d_ff = 32}}};
  CHECK(config.layers[1].attends());
  CHECK_FALSE(config.layers[1].stores());
  CHECK_FALSE((config.layers[2].attends() || config.layers[2].recurs()));
  CHECK(config.cache_shape().layers.size() == 1);
}
