#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <foredraft/io/vocabulary_difference.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"
#include "support/rows.hpp"
#include "support/toy_target.hpp"
#include "support/toy_vocabulary.hpp"

/// Decoders, texts and sources of randomness for the tests of bugs that others had.
namespace known_bugs {

namespace fd = foredraft;
namespace ft = fd::testing;

using Tokens = std::vector<fd::TokenId>;
using fd::FinishReason;
using fd::Siblings;
using Draft = fd::ModelDrafter<toy::Target, toy::TokenCache>;

// One type for all drafters and rules: each costs the compiler seconds.
using Decoder = fd::Decoder<toy::Target, toy::TokenCache, fd::AnyDrafter<>, fd::AnyAcceptance>;
using MakeDrafter = std::function<fd::AnyDrafter<>()>;

constexpr double kExact = 1e-12;  // what rounding may move a law
const Tokens kPrompt{3, 1, 4, 1, 5};

inline Draft model_draft(toy::Target& model, fd::DraftSampling sampling, int capacity = 1024) {
  return {model, toy::TokenCache{capacity}, {.sampling = sampling}};
}

/// Proposes text[i] for place i of the sequence, as deep as it may.
inline ft::ChainFunction reciting(Tokens text) {
  return {[text](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    for (int i = 0; i < limit.depth; ++i) {
      const std::size_t place = context.tokens.size() + fd::idx(i);
      if (place < text.size()) draft.extend(text[place]);
    }
  }};
}

inline fd::Result run(toy::Target& target, fd::AnyDrafter<> drafter, const fd::AnyAcceptance& rule,
                      const fd::Options& options, const Tokens& prompt = kPrompt) {
  Decoder decoder{target, toy::TokenCache{}, std::move(drafter), rule};
  return decoder.generate(prompt, options);
}

inline fd::Result plain(toy::Target& target, const fd::Options& options,
                        const Tokens& prompt = kPrompt) {
  return run(target, fd::NoDraft{}, fd::SampleAndMatch{}, options, prompt);
}

inline Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

inline Tokens first(const Tokens& tokens, std::size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)};
}

template <typename Call>
std::string code_of(Call&& call) {
  try {
    call();
  } catch (const fd::Error& error) {
    return std::string(fd::name_of(error.code()));
  }
  return "none";
}

const std::vector<fd::AnyAcceptance> kRulesThatDraw{fd::RejectionSampling{},
                                                    fd::BlockVerification{}};
const std::vector<fd::AnyAcceptance> kAllRules{fd::SampleAndMatch{}, fd::RejectionSampling{},
                                               fd::BlockVerification{}};

/// How far what is emitted with drafts of a model is from the target's law, every path followed.
inline double distance(fd::DraftSampling how, const fd::AnyAcceptance& rule,
                       const fd::SamplingOptions& sampling) {
  toy::Target target(3, 1, 1.5, 5);
  toy::Target draft(3, 1, 2.0, 9);
  const Tokens prompt{0, 1};
  constexpr int kTokens = 4;  // one without a draft, then at least a whole round
  const ft::JointLaw law = ft::law_of([&](fd::Rng& rng) {
    Decoder decoder{target, toy::TokenCache{}, model_draft(draft, how), rule};
    decoder.use_rng(&rng);
    return decoder
        .generate(prompt,
                  {.max_tokens = kTokens,
                   .n_draft = 2,
                   .sampling = {.temperature = sampling.temperature, .top_k = sampling.top_k}})
        .tokens;
  });
  return ft::total_variation(law, ft::target_law(target, prompt, sampling, kTokens));
}

/// What a draft model proposes behind the prompt for a rule that uses q.
inline fd::DraftTree draft_of(toy::Target& model, fd::DraftSampling how,
                              const fd::SamplingOptions& sampling, fd::Rng& rng) {
  Draft drafter = model_draft(model, how);
  fd::DraftTree draft;
  draft.reset(kPrompt.back());
  drafter.propose({kPrompt, {}, sampling, true, &rng}, {4, 4}, draft);
  return draft;
}

/// Notes the weights of every draw.
struct NotingRng final : fd::Rng {
  bool bernoulli(fd::RngKey key, double probability) override {
    return philox.bernoulli(key, probability);
  }
  std::size_t categorical(fd::RngKey key, std::span<const fd::TokenId> ids,
                          std::span<const double> weights) override {
    draws.push_back({{ids.begin(), ids.end()}, {weights.begin(), weights.end()}});
    return philox.categorical(key, ids, weights);
  }
  fd::Philox philox;
  std::vector<fd::Law> draws;
};

/// Rejects everything, then draws the last token on offer.
struct RejectingRng final : fd::Rng {
  bool bernoulli(fd::RngKey, double) override { return false; }
  std::size_t categorical(fd::RngKey, std::span<const fd::TokenId> ids,
                          std::span<const double> weights) override {
    std::size_t last = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) last = weights[i] > 0 ? i : last;
    return last;
  }
};

/// What replaces a draft of `token` that fails its test. It was drawn from q or, where q is empty,
/// found.
template <typename A>
fd::TokenId recovered(const A& rule, const std::vector<float>& row, fd::TokenId token,
                      const fd::Law& q) {
  fd::DraftTree draft;
  draft.reset(0);
  if (q.size() > 0) draft.drawn_from(0) = q;
  draft.extend(token);
  const Rows rows(draft, {row, row}, {.temperature = 1.0f});
  RejectingRng rng;
  return rule.verify(draft, rows.sampler, rng).last;
}

// ---- seeds -------------------------------------------------------------------------------------

/// One text among others.
struct Job {
  fd::AnyAcceptance rule;
  MakeDrafter drafter;
  fd::Options options;
};

inline Tokens alone(toy::Target& target, const Job& job) {
  return run(target, job.drafter(), job.rule, job.options).tokens;
}

/// All jobs at once, round by round in turn: a call ends behind the first round that made a token.
inline std::vector<Tokens> together(toy::Target& target, const std::vector<Job>& jobs) {
  std::deque<Decoder> decoders;
  std::vector<Tokens> texts(jobs.size());
  for (const Job& job : jobs) {
    decoders.emplace_back(target, toy::TokenCache{}, job.drafter(), job.rule);
    decoders.back().prefill(kPrompt, job.options);
  }
  for (bool open = true; open;) {
    open = false;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      bool emitted = false;
      fd::Options options = jobs[i].options;
      options.max_tokens -= static_cast<int>(texts[i].size());
      if (options.max_tokens == 0) continue;
      open = true;
      options.cancelled = [&] { return emitted; };
      decoders[i].resume(options, [&](const fd::Emitted& token) {
        emitted = true;
        texts[i].push_back(token.token);
      });
    }
  }
  return texts;
}

const MakeDrafter kNone = [] { return fd::NoDraft{}; };
const MakeDrafter kLookup = [] { return fd::PromptLookup{{.min_match = 1}}; };

inline MakeDrafter drawing(toy::Target& model) {
  return [&model] { return model_draft(model, fd::DraftSampling::kDrawn); };
}

// ---- stops -------------------------------------------------------------------------------------

/// A text without repetitions, so that each of its tokens occurs in it for the first time.
struct Distinct {
  Distinct() {
    for (int i = 1000; i < 3000; ++i) target.pieces.push_back("<" + std::to_string(i) + ">");
    truth = plain(target, {.max_tokens = 24});
    REQUIRE(std::set<fd::TokenId>(truth.tokens.begin(), truth.tokens.end()).size() == 24);
  }
  /// With the whole text as the draft: after the first token, blocks of 1 + n_draft tokens.
  fd::Result recited(const fd::Options& options) {
    return run(target, reciting(joined(kPrompt, truth.tokens)), fd::SampleAndMatch{}, options);
  }
  std::string piece(std::size_t at) const { return target.piece(truth.tokens[at]); }

  toy::Target target{2000, 0};
  fd::Result truth;
};

// ---- vocabularies ------------------------------------------------------------------------------

/// A model that knows its pieces; they are compared when a decoder is built.
struct Speaking : toy::Target {
  explicit Speaking(const fd::VocabularyData& data)
      : toy::Target(static_cast<int>(data.texts.size())), vocabulary(data) {}
  fd::TargetInfo info() const { return {vocab_size(), fd::vocabulary_info(vocabulary)}; }
  fd::Vocabulary vocabulary;
};

inline std::string code_with(const fd::VocabularyData& target, const fd::VocabularyData& draft) {
  Speaking large(target);
  Speaking small(draft);
  return code_of([&] {
    using SpeakingDraft = fd::ModelDrafter<Speaking, toy::TokenCache>;
    fd::Decoder decoder{large, toy::TokenCache{}, SpeakingDraft{small, toy::TokenCache{}, {}},
                        fd::Greedy{}};
    decoder.generate(kPrompt, {.max_tokens = 8});
  });
}

inline fd::VocabularyData words(const std::vector<std::string>& texts,
                                fd::TokenKind kind = fd::TokenKind::kNormal) {
  fd::VocabularyData data = toy::byte_level({});
  for (const std::string& text : texts) toy::add(data, text, kind);
  return data;
}

}  // namespace known_bugs
