#pragma once

#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <foredraft/acceptance/any_acceptance.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/saved_table.hpp>
#include <foredraft/drafter/chain.hpp>
#include <foredraft/drafter/model_heterogeneous.hpp>
#include <foredraft/drafter/ngram_counts.hpp>
#include <foredraft/drafter/shared_ngram_counts.hpp>

#include "cache_format.hpp"
#include "usage.hpp"

/// The ways to draft and to accept that the program offers. Options with their help and errors,
/// reports and sessions all read two tables: one row there is all that a further way takes.
namespace cli {

struct Method;
struct Models;

/// A draft model on the processor leaves its passes to whoever has several texts.
using TreeDrafter = fd::AnyDrafter<fd::Shape::kTree, Cache>;

/// What drafters that match n-grams are told; absent: the drafter's own default.
struct NgramSizes {
  std::optional<int> n = {};     ///< tokens that have to match
  std::optional<int> m = {};     ///< tokens proposed at most
  std::optional<int> hits = {};  ///< times that a match has to have occurred
};

/// How what a drafter learnt from texts goes into a file and comes back.
struct DrafterMemory {
  void (*load)(TreeDrafter& drafter, std::istream& in, const fd::VocabularyFingerprint& vocabulary);
  void (*save)(TreeDrafter& drafter, std::ostream& out,
               const fd::VocabularyFingerprint& vocabulary);
};

struct DrafterKind {
  std::string name;  ///< as --spec-type spells it
  TreeDrafter (*make)(Models& models, const Method& method);
  std::string alias = {};    ///< what llama.cpp calls it; empty: nothing
  bool in_auto = false;      ///< others find what one of those finds, or rarely pay
  bool needs_model = false;  ///< -md has to be given; else it may not be
  bool (*fits)(const Models& models) = nullptr;  ///< the target; null: any
  const DrafterMemory* memory = nullptr;         ///< null: --spec-memory keeps nothing of it
  // Settings that have an effect.
  bool takes_lookup_min = false;
  bool takes_sizes = false;  ///< NgramSizes::n and m
  bool takes_hits = false;   ///< NgramSizes::hits
};

// What --spec-type takes besides a drafter.
inline const std::string kAuto = "auto";  ///< those with in_auto, in each round what pays
inline const std::string kNone = "none";
inline const std::string kSelf = "self";  ///< a drafter: some of the target's own layers

struct RuleKind {
  std::string name;   ///< as --spec-acceptance spells it
  std::string about;  ///< for --help; empty: nothing
  bool greedy;        ///< may be asked for at temperature 0, where all rules accept the same
  fd::AnyAcceptance (*make)();
  fd::AnyTreeAcceptance (*make_for_trees)();  ///< null: it verifies chains only
};

std::span<const DrafterKind> drafters();
std::span<const RuleKind> rules();  ///< the default first

/// The row of that name, or alias; null where there is none.
const DrafterKind* drafter_named(const std::string& name);
/// How drafts of another tokenizer are translated, by fd::Translation.
inline const std::vector<std::string> kTranslations{"auto", "intersection", "realignment"};

/// There has to be one: options are held to the table.
const RuleKind& rule_named(const std::string& name);

/// "lookup,draft" -> lookup and draft. An empty part stays one: "a," has two.
std::vector<std::string> parts_of(const std::string& list);

/// What drafters have learnt from other texts; null: nothing.
struct NgramTables {
  std::shared_ptr<const fd::NgramCounts> fixed = {};    ///< of a corpus, read only
  std::shared_ptr<fd::SharedNgramCounts> dynamic = {};  ///< of texts that ended, and learns
};

/// How a session makes its texts, beside the options of each call.
struct Method {
  std::string speculation;  ///< kAuto, kNone or names of drafters with commas between
  const RuleKind& rule;
  int n_ctx = 0;
  fd::RowFormats cache = {};        ///< of the target
  fd::RowFormats draft_cache = {};  ///< of the draft model
  int sinks = 0;  ///< first positions that the target's layers with a window read besides
  std::optional<fd::SamplingOptions> draft_law = {};  ///< absent: as the target is sampled
  bool with_model = true;                             ///< kAuto uses a draft model that is there
  std::vector<int> tree = {};  ///< the draft model's children by depth; empty: it drafts chains
  bool best_first = true;  ///< in place of chains trees that follow what it is sure of, if it can
  fd::Translation translation = fd::Translation::kAuto;  ///< where the tokenizers differ
  NgramTables ngrams = {};
  bool constrained = false;      ///< what the constraint forces is drafted, before all others
  std::vector<int> layers = {};  ///< of the target, which draft under kSelf; empty: the default
  int lookup_min = 0;  ///< tokens of the shortest match that lookup drafts from; 0: its default
  NgramSizes ngram_sizes = {};

  /// A drafter of that name takes part, given the models that it needs.
  bool asks(const DrafterKind& kind) const;
};

/// The draft model drafts best-first trees, and chains of tokens that are drawn. Not on a GPU: trees need more of a
/// row than its best token, and rows of logits would be copied from there.
bool drafts_best_first(const Models& models, const Method& method);

/// The layers of the target that draft under kSelf: those of `method`, or the default.
std::vector<int> self_layers(const Models& models, const Method& method);

/// Drafters with a controller that asks them; for a rule that verifies chains, paths of their trees.
template <fd::Shape S>
using Drafters = fd::ControlledDrafters<TreeDrafter, S>;

/// Those that `method` names. @errors what a drafter throws
template <fd::Shape S>
Drafters<S> make_drafters(Models& models, const Method& method);

}  // namespace cli
