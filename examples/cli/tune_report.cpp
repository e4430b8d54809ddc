#include "tune_report.hpp"

namespace cli {

namespace {

// An interval that ends below leaves no room for a gain that is worth its options.
constexpr double kNear = 1.05;

std::string describe(const Ratio& ratio) {
  std::string text = formatted("%.2f", ratio.median);
  if (ratio.low) text += formatted(" (%.2f to %.2f)", *ratio.low, *ratio.high);
  return text;
}

Json to_json(const Ratio& ratio) {
  Json object = {{"median", finite(ratio.median)}, {"low", nullptr}, {"high", nullptr}};
  if (ratio.low) object["low"] = finite(*ratio.low);
  if (ratio.high) object["high"] = finite(*ratio.high);
  object["prompts"] = ratio.prompts;
  return object;
}

std::string options_of(const Way& way) {
  const std::string options = way.options();
  const std::string chosen = options.empty() ? "auto" : options.substr(1);  // without its space
  return way.with_model ? chosen : chosen + ", without the draft model";
}

}  // namespace

std::string TuneReport::text() const {
  std::string text = "speed by what was tried, auto = 1:\n";
  std::string coordinate;
  for (const Step& step : found.steps) {
    if (step.coordinate != coordinate) text += "  " + (coordinate = step.coordinate) + "\n";
    text += formatted("    %5.2f  %3d prompts  ", step.to_auto.median, step.to_auto.prompts) +
            options_of(step.way) + "\n";
  }
  text += formatted("\n%d prompts, %d answers in %.0f s; medians, and their intervals of 95 %%\n",
                    prompts, answers, seconds);
  text += "auto:  " + describe(found.auto_to_plain) + " times plain decoding\n";
  const bool same = found.best == Way{};
  if (!same) {
    text += "found: " + describe(found.to_plain) + " times plain decoding, " +
            describe(found.to_auto) + " times auto, with " + options_of(found.best) + "\n";
  }
  if (found.beats_auto()) {
    text += "\nfaster than auto:\n";
  } else if (!found.to_auto.low) {
    text += formatted("\n%d prompts are too few to tell it from auto, so auto it is:\n",
                      found.to_auto.prompts);
  } else if (*found.to_auto.high < kNear) {
    text += "\nauto is as good:\n";
  } else {
    text +=
        "\nnothing was faster than auto beyond chance; more prompts (--max-prompts) tell "
        "more:\n";
  }
  return text + "  " + command + "\n";
}

Json TuneReport::json() const {
  Json steps = Json::array();
  for (const Step& step : found.steps) {
    steps.push_back({{"coordinate", step.coordinate},
                     {"options", step.way.options().empty() ? "" : step.way.options().substr(1)},
                     {"draft_model", step.way.with_model},
                     {"to_auto", to_json(step.to_auto)}});
  }
  return {{"command", command},
          {"beats_auto", found.beats_auto()},
          {"found", options_of(found.best)},
          {"to_auto", to_json(found.to_auto)},
          {"to_plain", to_json(found.to_plain)},
          {"auto_to_plain", to_json(found.auto_to_plain)},
          {"prompts", prompts},
          {"answers", answers},
          {"seconds", finite(seconds)},
          {"tried", steps},
          {"settings", settings}};
}

}  // namespace cli
