#include <foredraft/testing/law.hpp>

#include <limits>
#include <sstream>

#include <foredraft/foredraft.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

TEST_CASE("a report says how many cases there were, and which was the worst") {
  const ft::LawReport right = ft::check_law(fd::RejectionSampling{}, {{.temperature = 1.0f}});
  CHECK(right.keeps_the_law());
  CHECK(right.cases > 30);
  const ft::LawReport wrong =
      ft::check_law(fd::lossy::RelaxedAcceptance{}, {{.temperature = 1.0f}}, {{3, 1}});
  CHECK(!wrong.keeps_the_law());
  CHECK(wrong.distance > 0.1);
  std::ostringstream text;
  text << wrong;
  CHECK(text.str().find("does NOT keep the law") == 0);
  CHECK(text.str().find("3 tokens, depth 1") != std::string::npos);
}

TEST_CASE("a distance that is no number is a failure that no later case hides") {
  ft::LawReport report;
  CHECK(report.add(1e-15));
  CHECK(report.keeps_the_law());
  CHECK(report.add(std::numeric_limits<double>::quiet_NaN()));
  CHECK(!report.keeps_the_law());
  CHECK(!report.add(0.0));
  CHECK(!report.add(1.0));
  CHECK(!report.keeps_the_law());
  CHECK(report.cases == 4);
}

TEST_CASE("a rule that draws with the keys of another round is refuted, whatever it answers") {
  const ft::TreeRule careless{[](const fd::DraftTree&, const fd::RowSampler& rows, fd::Rng& rng) {
    fd::Verdict verdict;
    verdict.start();
    const fd::Law& p = rows.law(0);
    verdict.last = p.ids[rng.categorical({fd::Purpose::kResidual, 0, 0}, p.ids, p.p)];
    return verdict;
  }};
  const ft::LawReport report = ft::check_law(careless, {{.temperature = 1.0f}}, {{2, 1}});
  CHECK(!report.keeps_the_law());
  CHECK(report.worst.find("one key for two decisions") != std::string::npos);
}

TEST_CASE("a rule that throws is refuted with its own words") {
  const ft::TreeRule throwing{[](const fd::DraftTree& draft, const fd::RowSampler& rows, fd::Rng&) {
    if (draft.drafted() > 0) throw std::runtime_error("out of ideas");
    fd::Verdict verdict;
    verdict.start();
    verdict.last = rows.argmax(0);
    return verdict;
  }};
  const ft::LawReport report = ft::check_law(throwing, {{}}, {{2, 1}});
  CHECK(report.distance == 1.0);
  CHECK(report.worst.find("out of ideas") != std::string::npos);
}

TEST_CASE("what a rule refuses is counted, not passed over") {
  const ft::LawReport report = ft::check_law(fd::Greedy{}, {{}, {.temperature = 1.0f}}, {{2, 1}});
  CHECK(report.keeps_the_law());
  CHECK(report.refused == report.cases);
  std::ostringstream text;
  text << report;
  CHECK(text.str().find("more refused by the rule") != std::string::npos);
  // A refusal in the middle of a round is no refusal of the options.
  const ft::TreeRule capricious{
      [](const fd::DraftTree&, const fd::RowSampler&, fd::Rng&) -> fd::Verdict {
        throw fd::Error(fd::ErrorCode::kInvalidOption, "a hard case", "an easy one", "");
      }};
  CHECK(ft::check_law(capricious, {{.temperature = 1.0f}}, {{2, 1}}).distance == 1.0);
}
