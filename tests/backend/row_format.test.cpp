#include <foredraft/backend/row_format.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

TEMPLATE_TEST_CASE("a stored row comes back up to what its format rounds", "", float, fd::f16,
                   fd::q8_0) {
  std::vector<float> values;
  for (int d = 0; d < 64; ++d) values.push_back(std::sin(static_cast<float>(d)));
  std::vector<TestType> row(fd::idx(fd::row_elements<TestType>(64)));
  fd::store_row(std::span<const float>(values), row.data());
  std::vector<float> back(64);
  fd::load_row(row.data(), std::span<float>(back));
  const float bound = sizeof(TestType) == 4 ? 0.0f : sizeof(TestType) == 2 ? 0x1p-11f : 0.5f / 127;
  for (std::size_t d = 0; d < 64; ++d) CHECK(std::abs(back[d] - values[d]) <= bound);
  CHECK(row.size() * fd::kValuesPerElement<TestType> == 64);
}
