#include <foredraft/io/byte_cursor.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_samples.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const fd::Error& e) {
    CHECK(e.code() == fd::ErrorCode::kCorruptFile);
    return e.what();
  }
  return "no error";
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a cursor reads what was put, unaligned") {
  samples::RawBytes raw;
  raw.put(std::uint8_t{1}).put(std::uint32_t{0x01020304}).put_string("abc").put(-2.5);
  fd::ByteCursor in(raw.data);
  CHECK(in.take<std::uint8_t>("a") == 1);
  CHECK(in.take<std::uint32_t>("b") == 0x01020304);
  CHECK(in.take_string("c") == "abc");
  CHECK(in.take<double>("d") == -2.5);
  CHECK(in.remaining() == 0);
  CHECK(in.offset() == raw.data.size());
  CHECK(in.take_bytes(0, "nothing").empty());
}

TEST_CASE("a cursor never passes the end, and says where it stood") {
  samples::RawBytes raw;
  raw.put(std::uint16_t{7}).put(UINT64_MAX).put_letters("xy");
  fd::ByteCursor in(raw.data);
  in.take<std::uint16_t>("first");
  in.enter("key", 3);
  CHECK(contains(error_of([&] { fd::ByteCursor(in).take_string("name"); }),
                 "18446744073709551615 bytes at offset 10"));
  CHECK(contains(error_of([&] { fd::ByteCursor(in).take_string("name"); }), "key 3: name"));
  in.enter("key", 3, "general.name");
  in.take<std::uint64_t>("length");
  const std::string error = error_of([&] { in.take<std::uint32_t>("value"); });
  CHECK(contains(error, "key \"general.name\": value of 4 bytes at offset 10"));
  CHECK(contains(error, "2 bytes that are left"));
  CHECK(in.remaining() == 2);  // a failed take moves nothing
  CHECK(contains(error_of([&] { in.take_bytes(UINT64_MAX, "blob"); }),
                 "blob of 18446744073709551615"));
}

TEST_CASE("counts are held to the room that is left") {
  const std::vector<std::byte> bytes(20);
  const fd::ByteCursor in(bytes);
  in.check_count(2, 10, "things");
  in.check_count(0, 100, "things");
  CHECK(contains(error_of([&] { in.check_count(3, 10, "things"); }), "3 things at offset 0"));
  // The product of count and size would wrap to 0.
  CHECK(contains(error_of([&] { in.check_count(std::uint64_t{1} << 62, 4, "things"); }),
                 "at most 5"));
}
