#include <foredraft/core/stats.hpp>

#include <sstream>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Ten rounds: two without a draft, eight of depth 3 with 6 + 4 + 2 accepted tokens, two of them
/// wholly.
fd::Stats sample() {
  fd::Stats s;
  s.prompt_tokens = 30;
  s.reused_tokens = 10;
  s.rounds = 10;
  s.drafted = 24;
  s.accepted = 12;
  s.bonus = 2;
  s.corrected = 6;
  s.plain = 2;
  s.emitted = 22;
  for (std::size_t i = 0; i < 3; ++i) {
    s.drafted_per_position[i] = 8;
    s.accepted_per_position[i] = 6 - 2 * static_cast<std::int64_t>(i);
  }
  s.seconds.total = 11.0;
  s.seconds.prefill = 4.0;
  return s;
}

}  // namespace

TEST_CASE("rates follow from the counts") {
  const fd::Stats s = sample();
  CHECK(s.tokens_per_second() == Approx(2.0));
  CHECK(s.prompt_tokens_per_second() == Approx(5.0));  // reused tokens were not computed
  CHECK(s.acceptance_rate() == Approx(0.5));
  CHECK(s.acceptance_length() == Approx(1 + 12.0 / 8));  // rounds without a draft do not dilute it
}

TEST_CASE("nothing done gives numbers, not NaN") {
  const fd::Stats s;
  CHECK(s.tokens_per_second() == 0.0);
  CHECK(s.prompt_tokens_per_second() == 0.0);
  CHECK(s.acceptance_rate() == 0.0);
  CHECK(s.acceptance_length() == 1.0);
}

TEST_CASE("the printed statistics name drafts only where there were any") {
  std::ostringstream out;
  out << sample();
  CHECK(out.str().find("12 accepted (50 %)") != std::string::npos);
  CHECK(out.str().find("accepted per position: 6/8 4/8 2/8\n") != std::string::npos);
  CHECK(out.str().find("(10 reused)") != std::string::npos);
  std::ostringstream plain;
  plain << fd::Stats{};
  CHECK(plain.str().find("accepted") == std::string::npos);
  CHECK(plain.str().find("reused") == std::string::npos);
}

TEST_CASE("several calls add up in every member") {
  fd::Stats twice = sample();
  twice.seconds = {1, 2, 3, 4, 5, 6};
  twice += twice;
  CHECK(twice.prompt_tokens == 60);
  CHECK(twice.reused_tokens == 20);
  CHECK(twice.emitted == 44);
  CHECK(twice.rounds == 20);
  CHECK(twice.drafted == 48);
  CHECK(twice.accepted == 24);
  CHECK(twice.bonus == 4);
  CHECK(twice.corrected == 12);
  CHECK(twice.plain == 4);
  CHECK(twice.drafted_per_position[2] == 16);
  CHECK(twice.accepted_per_position[1] == 8);
  const fd::Seconds& s = twice.seconds;
  CHECK(std::vector<double>{s.prefill, s.draft, s.verify, s.accept, s.commit, s.total} ==
        std::vector<double>{2, 4, 6, 8, 10, 12});
}
