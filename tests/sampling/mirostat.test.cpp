#include <foredraft/sampling/mirostat.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

TEST_CASE("mirostat's bound begins at twice tau and moves by how much a token surprised") {
  const fd::SamplingOptions options{
      .temperature = 1.0f, .mirostat = 2, .mirostat_tau = 3.0f, .mirostat_eta = 0.5f};
  fd::Mirostat state;
  CHECK(state.most_surprise(options) == 6.0);
  state.observe(options, 0.125);  // as surprising as asked for
  CHECK(state.most_surprise(options) == 6.0);
  state.observe(options, 1.0);  // no surprise at all: the bound rises
  CHECK(state.most_surprise(options) == 7.5);
  state.observe(options, 0.03125);  // 5 bits
  CHECK(state.most_surprise(options) == 6.5);
  state.observe(options, 0.0);
  CHECK(state.most_surprise(options) == 6.5);
}

TEST_CASE("states of mirostat are values") {
  const fd::SamplingOptions options{.temperature = 1.0f, .mirostat = 2};
  fd::Mirostat a;
  const fd::Mirostat b = a;
  CHECK(a == b);
  a.observe(options, 0.5);
  CHECK_FALSE(a == b);
}
