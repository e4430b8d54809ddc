#include "tune_report.hpp"

#include <string>
#include <utility>

#include "support/catch.hpp"

using cli::Found;
using cli::TuneReport;
using cli::Way;

TEST_CASE("a report says whether the draft model is left out, whatever else was chosen") {
  const std::string without = ", without the draft model";
  for (const auto& [way, said] : {
           std::pair{Way{.plain = true}, std::string("--spec-type none")},
           std::pair{Way{.with_model = false}, "auto" + without},
           std::pair{Way{.depth = 4}, std::string("--spec-draft-n-max 4")},
           std::pair{Way{.with_model = false, .depth = 4}, "--spec-draft-n-max 4" + without},
           std::pair{Way{.with_model = false, .lookup_min = 3}, "--spec-lookup-min 3" + without},
       }) {
    CAPTURE(said);
    const Found found{.best = way,
                      .to_auto = {},
                      .to_plain = {},
                      .auto_to_plain = {},
                      .steps = {{.coordinate = "depth", .way = way, .to_auto = {}}}};
    const TuneReport report{.found = found, .command = "foredraft generate"};
    CHECK(report.json()["found"] == said);
    CHECK(report.text().find("prompts  " + said + "\n") != std::string::npos);
    CHECK(report.text().find(", with " + said + "\n") != std::string::npos);
  }
  const Found found;
  CHECK(TuneReport{.found = found, .command = ""}.json()["found"] == "auto");
}
