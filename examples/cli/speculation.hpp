#pragma once

#include <optional>
#include <span>
#include <string>

#include <foredraft/acceptance/any_acceptance.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/drafter/any_drafter.hpp>

#include "cache_format.hpp"
#include "usage.hpp"

/// The ways to draft and to accept that the program offers. Options with their help and errors,
/// reports and sessions all read two tables: one row there is all that a further way takes.
namespace cli {

struct Method;
struct Models;

struct DrafterKind {
  std::string name;      ///< as --spec-type spells it
  std::string alias;     ///< what llama.cpp calls it; empty: nothing
  bool needs_model;      ///< -md has to be given; to others it may not be given
  int depth;             ///< greatest depth of a draft where the user names none; 0: no drafts
  std::string why_idle;  ///< why it may have drafted nothing in a whole text
  fd::AnyDrafter<> (*make)(Models& models, const Method& method);
};

struct RuleKind {
  std::string name;   ///< as --spec-acceptance spells it
  std::string about;  ///< for --help; empty: nothing
  bool greedy;        ///< may be asked for at temperature 0, where all rules accept the same
  fd::AnyAcceptance (*make)();
};

std::span<const DrafterKind> drafters();
std::span<const RuleKind> rules();  ///< the default first

/// The row of that name, or alias. There has to be one: options are held to the tables.
const DrafterKind& drafter_named(const std::string& name);
const RuleKind& rule_named(const std::string& name);

/// The first that drafts with what the user has.
const DrafterKind& default_drafter(bool with_model);

/// How a session makes its texts, beside the options of each call.
struct Method {
  const DrafterKind& drafter;
  const RuleKind& rule;
  int n_ctx = 0;
  std::string cache_format = kCacheFormats[0];        ///< of the target
  std::optional<fd::SamplingOptions> draft_law = {};  ///< absent: as the target is sampled
};

}  // namespace cli
