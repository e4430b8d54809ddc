#pragma once

#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// What becomes of a draft model's weights and head, as --quantize-draft and --draft-vocab say; by default
/// what suits its file.
struct DraftCopy {
  std::string quantize = {};
  int vocab = 0;

  friend auto operator<=>(const DraftCopy&, const DraftCopy&) = default;
};

/// A way to draft, in the words of the command line. The default is what `generate` does by itself.
struct Way {
  std::vector<std::string> drafters = {};  ///< by name; empty: auto, unless `plain`
  bool plain = false;                      ///< no drafts
  bool with_model = true;                  ///< auto uses the draft model that is there
  std::vector<int> tree = {};              ///< of the draft model; empty: chains
  int depth = 0;                           ///< fixed; 0: as deep as pays
  int nodes = 0;                           ///< most of a draft; 0: as many as pay
  int lookup_min = 0;                      ///< 0: the default
  int ngram_size = 0;                      ///< 0: the defaults
  DraftCopy copy = {};                     ///< of the draft model

  friend bool operator==(const Way&, const Way&) = default;

  /// Options of `generate`, " --spec-type lookup" and so on; that of the draft model is not among
  /// them. @see uses_model
  std::string options() const;
};

/// What there is to choose from.
struct Space {
  struct Kind {
    std::string name;
    bool in_auto = true;
    bool needs_model = false;
    bool takes_sizes = false;       ///< as DrafterKind has it
    bool takes_lookup_min = false;  ///< likewise
  };
  std::vector<Kind> kinds = {};
  bool draft_model = false;            ///< one was given
  bool trees = true;                   ///< it can draft them
  std::vector<DraftCopy> copies = {};  ///< of it, besides the one that suits its file

  bool asks(const Way& way, const Kind& kind) const;
  bool uses_model(const Way& way) const;
  bool any_asked(const Way& way, const std::function<bool(const Kind&)>& which) const;

  struct Coordinate {
    std::string name;
    std::vector<Way> (Space::*others)(const Way& way) const;
  };
  /// One after the other, the most important first. Each makes ways that differ in it.
  static const std::vector<Coordinate>& coordinates();
  std::vector<Way> other_drafters(const Way& way) const;
  std::vector<Way> other_copies(const Way& way) const;
  std::vector<Way> other_trees(const Way& way) const;
  std::vector<Way> other_depths(const Way& way) const;
  std::vector<Way> other_nodes(const Way& way) const;
  std::vector<Way> other_matches(const Way& way) const;
  std::vector<Way> other_ngrams(const Way& way) const;
};

/// Seconds of whole answers, [way][prompt], all measured in turns.
/// @shape as the arguments have
using Lap = std::vector<std::vector<double>>;
using Measure = std::function<Lap(const std::vector<Way>& ways, const std::vector<int>& prompts)>;

/// Median of ratios, one a prompt, with an interval that holds that of all such prompts with a
/// probability of at least 95 %: from the k-th smallest to the k-th greatest of n, by the binomial law, whatever law
/// the ratios have. Less than six say nothing of it.
struct Ratio {
  double median = 1;
  std::optional<double> low = {};
  std::optional<double> high = {};
  int prompts = 0;

  static Ratio of(std::vector<double> ratios);
  /// Beyond what chance explains, and more than 1 %, which nobody notices.
  bool gains() const { return low && *low > 1 && median >= 1.01; }
  bool loses() const { return high && *high < 1 && median <= 0.99; }
};

struct Step {
  std::string coordinate;
  Way way;
  Ratio to_auto;  ///< speed, where auto has 1
};

struct Found {
  Way best;  ///< of the search; auto is Way{}
  Ratio to_auto;
  Ratio to_plain;
  Ratio auto_to_plain;
  std::vector<Step> steps = {};

  /// The best is worth its options. Else auto is as good, or nothing is known.
  bool beats_auto() const { return best != Way{} && to_auto.gains(); }
};

/// Look for a way that is faster than auto: coordinate by coordinate, each time with successive
/// halving. All ways answer two prompts, the faster half of them more, and so on; auto answers with
/// them, and what counts are ratios of one prompt. Which one wins among many is half chance; so the
/// last one is measured again, on all prompts `rounds` times against auto and plain decoding, and
/// only these answers say what it gains.
Found search(const Space& space, int n_prompts, int rounds, const Measure& measure);

/// Answers that search() measures at most: what it takes depends on what it finds.
int most_answers(const Space& space, int n_prompts, int rounds);

}  // namespace cli
