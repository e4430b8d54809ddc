#include <foredraft/core/any_state.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Numbers {
  std::vector<std::int32_t> numbers = {};
  static void parts(auto& self, auto& archive) { archive(self.numbers); }
};
struct Silent {
  int number = 0;
};

std::vector<std::byte> written(const fd::AnyState& state) {
  fd::PayloadWriter payload;
  fd::StateWriter{payload}(state);
  return std::move(payload).bytes();
}

fd::AnyState read(const std::vector<std::byte>& bytes, fd::AnyState like) {
  fd::PayloadReader payload(bytes, 0);
  fd::StateReader{payload}(like);
  payload.end();
  return like;
}

}  // namespace

TEST_CASE("a state is what it was made of, and no other type") {
  const auto any = fd::AnyState::of(Numbers{{1, 2}});
  CHECK_FALSE(any.empty());
  CHECK(any.get<Numbers>()->numbers == std::vector<std::int32_t>{1, 2});
  CHECK(any.get<Silent>() == nullptr);
  CHECK(any.get<fd::AnyState>() == nullptr);
  const fd::AnyState copy = any;
  CHECK(copy.get<Numbers>() == any.get<Numbers>());  // shared
  CHECK(fd::AnyState().empty());
  CHECK(fd::AnyState().get<Numbers>() == nullptr);
  CHECK(fd::StateMemory::of(any) >= sizeof(fd::AnyState) + sizeof(Numbers) + 8);
}

TEST_CASE("a state is read over one of its kind; one that cannot be written leaves nothing") {
  const auto any = fd::AnyState::of(Numbers{{1, 2}});
  const fd::AnyState found = read(written(any), fd::AnyState::of(Numbers{{7}}));
  CHECK(found.get<Numbers>()->numbers == std::vector<std::int32_t>{1, 2});
  CHECK(read(written(fd::AnyState::of(Silent{3})), any).empty());
  CHECK(read(written({}), any).empty());
  // Over nothing, or over another type, whose bytes it cannot be.
  CHECK_THROWS_AS(read(written(any), {}), fd::Error);
  CHECK_THROWS_AS(read(written(any), fd::AnyState::of(Silent{3})), fd::Error);
}
