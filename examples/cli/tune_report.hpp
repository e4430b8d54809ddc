#pragma once

#include <string>

#include "output.hpp"
#include "tune_search.hpp"

namespace cli {

/// What `tune` found, with what it takes to say so.
struct TuneReport {
  const Found& found;
  std::string command;  ///< for the best way where it beats auto, else for auto
  int prompts = 0;
  int answers = 0;  ///< measured, all in all
  double seconds = 0;
  Json settings = {};

  std::string text() const;
  Json json() const;
};

}  // namespace cli
