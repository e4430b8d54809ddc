#include <foredraft/core/result.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("finish reasons are spelled as the OpenAI API does, where it has a word") {
  CHECK(fd::name_of(fd::FinishReason::kEnd) == "stop");
  CHECK(fd::name_of(fd::FinishReason::kStop) == "stop");
  CHECK(fd::name_of(fd::FinishReason::kLength) == "length");
  CHECK(fd::name_of(fd::FinishReason::kContext) == "context");
  CHECK(fd::name_of(fd::FinishReason::kCancelled) == "cancelled");
}
