#include "speculation.hpp"

#include <algorithm>

#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/drafter/model_drafter.hpp>
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

const DrafterKind kDrafters[] = {
    {"lookup", "ngram-simple", false,
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::PromptLookup{}; }},
    {"suffix", "", false, [](auto&, auto&) -> fd::AnyDrafter<> { return fd::SuffixDecoding<>{}; }},
    {"suffix-automaton", "", false,
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::SuffixAutomaton{}; }},
    {"recycling", "", false,
     [](auto&, auto&) -> fd::AnyDrafter<> { return fd::TokenRecycling<>{}; }},
    {"draft", "draft-simple", true, model_drafter},
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

const DrafterKind* drafter_named(const std::string& name) {
  const auto found = std::ranges::find_if(
      kDrafters, [&](const DrafterKind& kind) { return kind.name == name || kind.alias == name; });
  return found == std::ranges::end(kDrafters) ? nullptr : found;
}

const RuleKind& rule_named(const std::string& name) {
  return *std::ranges::find(kRules, name, &RuleKind::name);
}

fd::Chain<> make_drafter(Models& models, const Method& method) {
  fd::Chain<> chain;
  for (const DrafterKind& kind : kDrafters) {
    const bool usable = !kind.needs_model || (models.draft && method.with_model);
    if (method.speculation == kind.name || (method.speculation == kAuto && usable)) {
      chain.add(kind.name, kind.make(models, method));
    }
  }
  return chain;
}

}  // namespace cli
