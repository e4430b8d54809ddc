#include <foredraft/io/vocabulary_data.hpp>
#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("byte tokens have one spelling") {
  CHECK(fd::parse_byte_token("<0x00>") == 0);
  CHECK(fd::parse_byte_token("<0x7f>") == 0x7F);
  CHECK(fd::parse_byte_token("<0xFF>") == 0xFF);
  for (const char* const bad : {"", "<0x-1>", "<0x+1>", "<0x 1>", "<0x1>", "<0x100>", "<0xG0>",
                                "<0X00>", "<0x00", "0x00>>", "<0x00>x"}) {
    INFO(bad);
    try {
      fd::parse_byte_token(bad);
      FAIL("accepted");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kCorruptFile);
    }
  }
}
