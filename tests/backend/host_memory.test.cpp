#include <foredraft/backend/host_memory.hpp>

#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("a buffer grows when it has to, and keeps its memory otherwise") {
  fd::HostBuffer<float> buffer;
  const float* const large = buffer.reserve(100);
  CHECK(buffer.reserve(3) == large);
  const std::vector<float> values{1, 2, 3};
  const float* const written = buffer.write(values);
  CHECK(written == large);
  CHECK(std::vector<float>(written, written + 3) == values);
  const std::vector<float> more(1000, 7.0f);
  const float* const grown = buffer.write(more);
  CHECK(std::vector<float>(grown, grown + 1000) == more);
}
