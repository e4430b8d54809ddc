#include <foredraft/core/index.hpp>

#include <cstdint>
#include <type_traits>

#include <foredraft/core/dimension.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

template <typename T>
constexpr bool takes = requires(T value) { fd::idx(value); };

TEST_CASE("an index keeps its value, whatever type it had") {
  static_assert(std::is_same_v<decltype(fd::idx(std::int32_t{1})), std::size_t>);
  static_assert(fd::idx(std::int8_t{127}) == 127);
  static_assert(fd::idx(std::int64_t{1} << 40) == std::size_t{1} << 40);
  static_assert(fd::idx(fd::Dim(7)) == 7);
  static_assert(!takes<double>);
}
