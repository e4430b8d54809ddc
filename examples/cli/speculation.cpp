#include "speculation.hpp"

#include <algorithm>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/no_draft.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>
#include <foredraft/drafter/suffix_automaton.hpp>
#include <foredraft/drafter/suffix_decoding.hpp>
#include <foredraft/drafter/token_recycling.hpp>

#include "models.hpp"

namespace cli {

namespace {

fd::AnyDrafter<> model_drafter(Models& models, const Method& method) {
  return fd::ModelDrafter{
      *models.draft, {.law = method.draft_law}, models.draft_context(method.n_ctx)};
}

// A draft model pays for every token it drafts, a lookup does not. A lookup drafts no more than its
// match is worth, so a great depth costs it little.
const DrafterKind kDrafters[] = {
    {"none", "", false, 0, "", [](auto&, auto&) -> fd::AnyDrafter<> { return fd::NoDraft{}; }},
    {"lookup", "ngram-simple", false, 15, "nothing in the text repeats itself",
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::PromptLookup{}; }},
    {"suffix", "", false, 15, "nothing in the text repeats itself",
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::SuffixDecoding<>{}; }},
    {"suffix-automaton", "", false, 15, "nothing in the text repeats itself",
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::SuffixAutomaton{}; }},
    {"recycling", "", false, 7, "no token came twice",
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::TokenRecycling<>{}; }},
    {"draft", "draft-simple", true, 8, "the draft model's context is full", model_drafter},
};

const RuleKind kRules[] = {
    {"match", "a seed gives one text, drafted or not", true,
     []() -> fd::AnyAcceptance { return fd::SampleAndMatch{}; }},
    {"rejection", "", false, []() -> fd::AnyAcceptance { return fd::RejectionSampling{}; }},
    {"block", "as rejection, but of whole drafts: it keeps at least as many tokens", false,
     []() -> fd::AnyAcceptance { return fd::BlockVerification{}; }},
};

}  // namespace

std::span<const DrafterKind> drafters() { return kDrafters; }
std::span<const RuleKind> rules() { return kRules; }

const DrafterKind& drafter_named(const std::string& name) {
  return *std::ranges::find_if(
      kDrafters, [&](const DrafterKind& kind) { return kind.name == name || kind.alias == name; });
}

const RuleKind& rule_named(const std::string& name) {
  return *std::ranges::find(kRules, name, &RuleKind::name);
}

const DrafterKind& default_drafter(bool with_model) {
  return *std::ranges::find_if(kDrafters, [&](const DrafterKind& kind) {
    return kind.depth > 0 && kind.needs_model == with_model;
  });
}

}  // namespace cli
