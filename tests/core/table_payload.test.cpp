#include <foredraft/core/table_payload.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

TEST_CASE("numbers of every width are little-endian and come back") {
  fd::PayloadWriter writer;
  writer.put(std::uint8_t{0xfe});
  writer.put(std::uint16_t{0x1234});
  writer.put(std::int32_t{-2});
  writer.put(std::numeric_limits<std::uint64_t>::max() - 1);
  writer.put(std::numeric_limits<std::int64_t>::min());
  const auto bytes = writer.bytes();
  REQUIRE(bytes.size() == 1 + 2 + 4 + 8 + 8);
  CHECK(bytes[1] == std::byte{0x34});
  CHECK(bytes[2] == std::byte{0x12});

  fd::PayloadReader reader(bytes, 10);
  CHECK(reader.take<std::uint8_t>("a") == 0xfe);
  CHECK(reader.take<std::uint16_t>("b") == 0x1234);
  CHECK(reader.take<std::int32_t>("c") == -2);
  CHECK(reader.take<std::uint64_t>("d") == std::numeric_limits<std::uint64_t>::max() - 1);
  CHECK(reader.remaining() == 8);
  CHECK_THROWS_AS(reader.end(), fd::Error);
  CHECK(reader.take<std::int64_t>("e") == std::numeric_limits<std::int64_t>::min());
  CHECK_NOTHROW(reader.end());
  CHECK_THROWS_AS(reader.take<std::uint8_t>("f"), fd::Error);
}

TEST_CASE("what a payload says is held to bounds") {
  fd::PayloadWriter writer;
  for (const int token : {9, 10, -1, 7, 3}) writer.put(token);
  const auto bytes = writer.bytes();
  fd::PayloadReader reader(bytes, 10);
  CHECK(reader.take_token("token") == 9);
  CHECK(code_of([&] { reader.take_token("token"); }) == fd::ErrorCode::kCorruptFile);
  CHECK(code_of([&] { reader.take_token("token"); }) == fd::ErrorCode::kCorruptFile);
  CHECK(reader.take_within(7, 7, "count") == 7);
  CHECK(code_of([&] { reader.take_within(4, 9, "count"); }) == fd::ErrorCode::kCorruptFile);

  fd::PayloadReader huge(bytes, std::numeric_limits<std::uint32_t>::max());
  CHECK(huge.take_token("token") == 9);
  fd::PayloadReader none(bytes, 0);
  CHECK(code_of([&] { none.take_token("token"); }) == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("a count is refused where there are no bytes for so many") {
  for (const std::uint64_t count :
       {std::uint64_t{3}, std::uint64_t{1} << 61, std::numeric_limits<std::uint64_t>::max()}) {
    fd::PayloadWriter writer;
    writer.put(count);
    for (int i = 0; i < 5; ++i) writer.put(i);  // two entries of eight bytes, and a half
    const auto bytes = writer.bytes();
    fd::PayloadReader reader(bytes, 10);
    CHECK(code_of([&] { reader.take_count(8, "entries"); }) == fd::ErrorCode::kCorruptFile);
    fd::PayloadReader four(bytes, 10);
    if (count == 3) CHECK(four.take_count(4, "entries") == 3);
  }
}
