#include <foredraft/model/recurrent_weights.hpp>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/model/config.hpp>

#include <variant>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE(
    "weights of recurrent layers are absent unless they are set, and one kind for each shape") {
  using Weights = fd::RecurrentWeights<fd::Reference>;
  CHECK(std::holds_alternative<std::monostate>(Weights{}));
  STATIC_REQUIRE(std::variant_size_v<Weights> == std::variant_size_v<fd::RecurrentShape>);
  CHECK(Weights(fd::ShortConvWeights<fd::Reference>{}).index() ==
        fd::RecurrentShape(fd::ShortConvShape{}).index());
  CHECK(Weights(fd::SelectiveScanWeights<fd::Reference>{}).index() ==
        fd::RecurrentShape(fd::SelectiveScanShape{}).index());
  CHECK(Weights(fd::GatedDeltaNetWeights<fd::Reference>{}).index() ==
        fd::RecurrentShape(fd::GatedDeltaNetShape{}).index());
}
