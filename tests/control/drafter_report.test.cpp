#include <foredraft/control/drafter_report.hpp>

#include <string>

#include "support/catch.hpp"

namespace fd = foredraft;
using Parked = fd::DrafterReport::Parked;

TEST_CASE("a report is one line: what was done, what came of it, and why nothing is drafted now") {
  fd::DrafterReport report{.asked = 3, .seconds = 0.0125};
  CHECK(report.text() == "asked 3 times, 12.5 ms in all; no draft that was worth verifying");
  report.verified = 8;
  report.accepted = 6;
  CHECK(report.text() == "asked 3 times, 12.5 ms in all; 8 tokens verified, 6 accepted (75 %)");
  report.failures = 2;
  const std::string all = report.text();
  CHECK(all.ends_with("(75 %); failed 2 times"));
  const auto why = [&](Parked parked) {
    report.parked = parked;
    return report.text().substr(all.size());
  };
  report.ratio = 1.2;
  CHECK(why(Parked::kNot).empty());
  CHECK(why(Parked::kDrafting) == "; parked: drafting would cost 1.2 times what it gains");
  CHECK(why(Parked::kRisk) == "; parked: drafting would cost more than this text may lose");
  CHECK(why(Parked::kReading) == "; parked: reading the text would cost more than drafts can save");
  CHECK(why(Parked::kAsking) == "; parked: to ask it takes as long as its drafts save");
  CHECK(why(Parked::kFailing) == "; parked: it threw, or drafted nothing, the last time");
}
