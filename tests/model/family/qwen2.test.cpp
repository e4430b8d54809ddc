#include <foredraft/model/family/qwen2.hpp>

#include <foredraft/model/family/families.hpp>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

TEST_CASE("qwen2 turns halves") {
  const TinyModel tiny{.family = "qwen2"};
  const auto bytes = tiny.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const fd::ModelConfig config = fd::read_config(file);
  CHECK(config.family == "qwen2");
  CHECK(config.ropes.at(0).kind == fd::RopeKind::kHalves);
  CHECK(config.layers.size() == 2);
}
