#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/skip.hpp"

int main(int argc, char* argv[]) {
  // What Catch2 2 returns is a count, and may be any number.
  if (Catch::Session().run(argc, argv) != 0) return 1;
  return was_skipped ? FOREDRAFT_TEST_SKIPPED : 0;
}
