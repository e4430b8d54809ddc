#include "speculation.hpp"

#include <algorithm>
#include <istream>
#include <memory>
#include <ostream>
#include <utility>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/drafter/forced_tokens.hpp>
#include <foredraft/drafter/lookahead.hpp>
#include <foredraft/drafter/model_self.hpp>
#include <foredraft/drafter/ngram_cache.hpp>
#include <foredraft/drafter/ngram_map_k.hpp>
#include <foredraft/drafter/ngram_map_k4v.hpp>
#include <foredraft/drafter/ngram_mod.hpp>
#include <foredraft/drafter/ngram_simple.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>
#include <foredraft/drafter/suffix_automaton.hpp>
#include <foredraft/drafter/suffix_decoding.hpp>
#include <foredraft/drafter/token_recycling.hpp>

#include "cache_format.hpp"
#include "draft.hpp"
#include "draft_over.hpp"
#include "models.hpp"
#include "target.hpp"

namespace cli {

namespace {

constexpr fd::Shape kTree = fd::Shape::kTree;

class CpuDraft final : public ModelOn<Model, Draft> {
 public:
  CpuDraft(Model loaded, std::string isa) : ModelOn(std::move(loaded)), isa_(std::move(isa)) {}

  std::string arithmetic() const override { return isa_; }
  bool on_gpu() const override { return false; }
  Model* on_cpu() override { return &model; }

  TreeDrafter make_drafter(Models& models, const Method& method) override {
    Cache cache(with_formats(model.shape(), method.draft_cache),
                models.draft_context(method.n_ctx));
    return draft_over(model, std::move(cache), models, method);
  }

 private:
  std::string isa_;
};

TreeDrafter model_drafter(Models& models, const Method& method) {
  return models.draft->make_drafter(models, method);
}

TreeDrafter self_drafter(Models& models, const Method& method) {
  // Not null: options refuse kSelf with a target elsewhere, and `tune` asks only_attends().
  return fd::SelfDrafter<fd::Cpu, Cache>{*models.target_on_cpu(), self_layers(models, method)};
}
bool only_attends(const Models& models) {
  return models.target_on_cpu() != nullptr && models.target.shape().states.empty();
}

TreeDrafter lookup(Models&, const Method& method) {
  fd::PromptLookup::Settings settings;
  if (method.lookup_min > 0) settings.min_match = method.lookup_min;
  return fd::PromptLookup(settings);
}

TreeDrafter ngram_cache(Models&, const Method& method) {
  return fd::NgramCache{method.ngrams.dynamic, method.ngrams.fixed};
}

template <typename D>
TreeDrafter make(Models&, const Method&) {
  return D{};
}

/// NgramSimple and NgramMapK.
template <typename D>
TreeDrafter ngrams(Models&, const Method& method) {
  fd::NgramSettings settings;
  settings.size_n = method.ngram_sizes.n.value_or(settings.size_n);
  settings.size_m = method.ngram_sizes.m.value_or(settings.size_m);
  return D(settings);
}

TreeDrafter ngram_map_k4v(Models&, const Method& method) {
  fd::NgramMapK4V::Settings settings;
  settings.size_n = method.ngram_sizes.n.value_or(settings.size_n);
  settings.size_m = method.ngram_sizes.m.value_or(settings.size_m);
  settings.min_hits = method.ngram_sizes.hits.value_or(settings.min_hits);
  return fd::NgramMapK4V(settings);
}

TreeDrafter ngram_mod(Models&, const Method& method) {
  fd::NgramMod::Settings settings;
  settings.n_max = method.ngram_sizes.m.value_or(settings.n_max);
  auto table = method.ngram_sizes.n ? std::make_shared<fd::NgramModTable>(*method.ngram_sizes.n)
                                    : std::make_shared<fd::NgramModTable>();
  return fd::NgramMod(std::move(table), settings);
}

template <typename D>
constexpr DrafterMemory kMemoryOf{
    [](TreeDrafter& drafter, std::istream& in, const fd::VocabularyFingerprint& vocabulary) {
      drafter.get<D>()->load(in, vocabulary);
    },
    [](TreeDrafter& drafter, std::ostream& out, const fd::VocabularyFingerprint& vocabulary) {
      drafter.get<D>()->save(out, vocabulary);
    }};

using Suffix = fd::SuffixDecoding<kTree>;
using Recycling = fd::TokenRecycling<kTree>;

// In the order in which a Chain prefers them where they promise the same. A new drafter is a row here,
// and nothing else.
const DrafterKind kDrafters[] = {
    {.name = "lookup", .make = lookup, .in_auto = true, .takes_lookup_min = true},
    {.name = "ngram-simple", .make = ngrams<fd::NgramSimple>, .takes_sizes = true},
    {.name = "ngram-map-k", .make = ngrams<fd::NgramMapK>, .takes_sizes = true},
    {.name = "ngram-map-k4v", .make = ngram_map_k4v, .takes_sizes = true, .takes_hits = true},
    {.name = "ngram-mod",
     .make = ngram_mod,
     .memory = &kMemoryOf<fd::NgramMod>,
     .takes_sizes = true},
    {.name = "ngram-cache", .make = ngram_cache, .in_auto = true},
    {.name = "suffix", .make = make<Suffix>, .in_auto = true, .memory = &kMemoryOf<Suffix>},
    {.name = "suffix-automaton", .make = make<fd::SuffixAutomaton>, .in_auto = true},
    {.name = "recycling",
     .make = make<Recycling>,
     .in_auto = true,
     .memory = &kMemoryOf<Recycling>},
    {.name = "lookahead", .make = make<fd::Lookahead>, .memory = &kMemoryOf<fd::Lookahead>},
    {.name = kSelf, .make = self_drafter, .fits = only_attends},
    {.name = "draft",
     .make = model_drafter,
     .alias = "draft-simple",
     .in_auto = true,
     .needs_model = true},
};

template <typename A>
fd::AnyAcceptance chains() {
  return A{};
}
template <typename A>
fd::AnyTreeAcceptance trees() {
  return A{};
}

// name, about, greedy, make, make_for_trees
const RuleKind kRules[] = {
    {"match", "a seed gives one text, drafted or not", true, chains<fd::SampleAndMatch>,
     trees<fd::SampleAndMatch>},
    {"rejection", "", false, chains<fd::RejectionSampling>, trees<fd::RejectionSampling>},
    {"block", "as rejection, but of whole drafts: it keeps at least as many tokens", false,
     chains<fd::BlockVerification>, nullptr},
};

}  // namespace

std::unique_ptr<Draft> draft_on_cpu(Model model, std::string isa) {
  return std::make_unique<CpuDraft>(std::move(model), std::move(isa));
}

double draft_cache_bytes(const Models& models, const Method& method) {
  if (!models.draft || models.draft->on_gpu()) return 0;
  return Cache::full_bytes(with_formats(models.draft->shape(), method.draft_cache),
                           models.draft_context(method.n_ctx));
}

std::span<const DrafterKind> drafters() { return kDrafters; }
std::span<const RuleKind> rules() { return kRules; }

const DrafterKind* drafter_named(const std::string& name) {
  const auto found = std::ranges::find_if(
      kDrafters, [&](const DrafterKind& kind) { return kind.name == name || kind.alias == name; });
  return found == std::ranges::end(kDrafters) ? nullptr : found;
}

const RuleKind& rule_named(const std::string& name) {
  return *std::ranges::find(kRules, name, &RuleKind::name);
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool drafts_best_first(const Models& models, const Method& method) {
  return method.best_first && method.tree.empty() && method.rule.make_for_trees != nullptr &&
         models.same_vocabulary() && !models.draft->on_gpu();
}

std::vector<int> self_layers(const Models& models, const Method& method) {
  if (!method.layers.empty()) return method.layers;
  return fd::layers_without_second_quarter(models.target.config());
}

bool Method::asks(const DrafterKind& kind) const {
  if (speculation == kAuto) return kind.in_auto && (!kind.needs_model || with_model);
  const auto names = parts_of(speculation);
  return std::ranges::find(names, kind.name) != names.end();
}

template <fd::Shape S>
Drafters<S> make_drafters(Models& models, const Method& method) {
  Drafters<S> chosen;
  if (method.constrained && method.speculation != kNone) chosen.add("forced", fd::ForcedTokens{});
  // In the order of the table, whatever that of the list. A list that names the draft model was
  // refused without one; auto does without.
  for (const DrafterKind& kind : kDrafters) {
    const bool lacks_model = kind.needs_model && !models.draft && method.speculation == kAuto;
    if (method.asks(kind) && !lacks_model) chosen.add(kind.name, kind.make(models, method));
  }
  return chosen;
}
// For session_over(), which every backend compiles in a file of its own.
template Drafters<fd::Shape::kChain> make_drafters(Models&, const Method&);
template Drafters<fd::Shape::kTree> make_drafters(Models&, const Method&);

}  // namespace cli
