#include <foredraft/model/config_reader.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/metadata.hpp"

namespace fd = foredraft;

TEST_CASE("an epsilon that no float holds is refused") {
  for (const double value : {1e300, 1e-300, 1.5, 0.0, -1e-5, std::nan(""), HUGE_VAL}) {
    fd::GgufWriter writer;
    const Metadata metadata;
    for (const auto& [key, number] : metadata.numbers) writer.add(key, number);
    writer.add("general.architecture", std::string("llama"));
    writer.add("llama.attention.layer_norm_rms_epsilon", value);
    const auto bytes = writer.bytes();
    CAPTURE(value);
    CHECK_THROWS_AS(fd::read_config(fd::Gguf::parse(bytes)), fd::Error);
  }
}
