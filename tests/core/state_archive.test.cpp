#include <foredraft/core/state_archive.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

struct Empty {};
struct Inner {
  std::vector<std::int32_t> numbers = {};
  static void parts(auto& self, auto& archive) { archive(self.numbers); }
  friend bool operator==(const Inner&, const Inner&) = default;
};
struct Outer {
  bool flag = false;
  std::int64_t number = 0;
  std::string text = {};
  std::vector<float> floats = {};
  std::vector<Inner> inner = {};
  Empty empty = {};
  static void parts(auto& self, auto& archive) {
    archive(self.flag);
    archive(self.number);
    archive(self.text);
    archive(self.floats);
    archive(self.inner);
    archive(self.empty);
  }
};
struct Silent {
  int number = 0;
};

static_assert(fd::Storable<Outer> && fd::Storable<Empty> && !fd::Storable<Silent>);

Outer example() { return {true, -5, "text", {1.5f, -0.0f}, {{{1, 2}}, {{}}}, {}}; }

std::vector<std::byte> bytes_of(const Outer& outer) {
  fd::PayloadWriter payload;
  fd::StateWriter{payload}(outer);
  return std::move(payload).bytes();
}

Outer read(std::span<const std::byte> bytes, Outer like) {
  fd::PayloadReader payload(bytes, 0);
  fd::StateReader{payload}(like);
  payload.end();
  return like;
}

}  // namespace

TEST_CASE("what is read is what was written") {
  const Outer outer = example();
  const Outer found = read(bytes_of(outer), {.inner = {{{9}}, {{9, 9, 9}}}});
  CHECK(found.flag);
  CHECK(found.number == -5);
  CHECK(found.text == "text");
  CHECK(found.floats == outer.floats);
  CHECK(found.inner == outer.inner);
}

TEST_CASE("a payload that is cut anywhere, or goes on, is refused") {
  auto bytes = bytes_of(example());
  const Outer like{.inner = std::vector<Inner>(2)};
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_THROWS_AS(read(std::span(bytes).first(n), like), fd::Error);
  }
  CHECK_THROWS_AS(read(bytes, {}), fd::Error);  // another number of parts
  bytes.push_back(std::byte{0});
  CHECK_THROWS_AS(read(bytes, like), fd::Error);
}

TEST_CASE("memory counts what vectors and strings hold, at every depth") {
  Outer outer;
  const std::size_t none = fd::StateMemory::of(outer);
  outer.floats.reserve(1000);
  CHECK(fd::StateMemory::of(outer) == none + 4000);
  outer.inner.resize(1);
  outer.inner.front().numbers.reserve(500);
  CHECK(fd::StateMemory::of(outer) >= none + 6000);
  CHECK(fd::StateMemory::of(Silent{}) == sizeof(Silent));
}

namespace {
struct Sharing {
  std::vector<std::shared_ptr<const Inner>> parts_of_all = {};
  static void parts(auto& self, auto& archive) { archive(self.parts_of_all); }
};
}  // namespace

TEST_CASE("parts that snapshots share are written and read by their values, and counted apart") {
  const auto part = std::make_shared<const Inner>(Inner{{1, 2}});
  const Sharing sharing{{part, part}};
  fd::PayloadWriter out;
  fd::StateWriter{out}(sharing);
  const auto bytes = std::move(out).bytes();
  Sharing found{{part, part, part}};
  fd::PayloadReader in(bytes, 0);
  fd::StateReader{in}(found);
  in.end();
  REQUIRE(found.parts_of_all.size() == 2);
  CHECK(*found.parts_of_all[1] == *part);
  CHECK(found.parts_of_all[1] != part);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    fd::PayloadReader cut({bytes.data(), n}, 0);
    CHECK_THROWS_AS(fd::StateReader{cut}(found), fd::Error);
  }

  fd::StateMemory memory;
  memory.add(sharing);
  REQUIRE(memory.shared().size() == 2);
  CHECK(memory.shared()[0].part == part.get());
  CHECK(memory.shared()[0].bytes == fd::StateMemory::of(*part));
  CHECK(fd::StateMemory::of(sharing) == memory.own() + 2 * memory.shared()[0].bytes);
}
