#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include <foredraft/foredraft.hpp>
#include <foredraft/testing/law.hpp>

#include "support/exact_law.hpp"
#include "support/function_policies.hpp"

/// What the tests of the law share.
namespace setup {

namespace fd = foredraft;
using law::Tokens;

constexpr double kExact = 1e-12;  // what rounding may move
constexpr double kCaught = 1e-6;  // a mutant is off by more

// One decoder type for all drafters and rules: each costs the compiler ten seconds.
using Decoder = fd::Decoder<toy::Target, toy::TokenCache, TreeFunction, TreeRule>;

const TreeRule kMatch = TreeRule::of(fd::SampleAndMatch{});
const TreeRule kRejection = TreeRule::of(fd::RejectionSampling{});
const TreeRule kBlock = TreeRule::of(fd::BlockVerification{});  // given chains only

/// q of a draft model that is not the target. Order 2: it looks back on two tokens.
inline law::LawAfter some_q(int n_vocab) {
  return [target = toy::Target(n_vocab, 2, 2.0, 77)](const Tokens& text) {
    return law::sparse(law::p_of(target.logits_after(text), {.temperature = 1.0f}));
  };
}

inline fd::Options with(const fd::SamplingOptions& s, int depth) {
  fd::Options options{.n_draft = depth};
  options.sampling = s;
  return options;
}

const Tokens kPeriodic{0, 1, 0, 1, 0};  // something for a lookup to find

/// Law of prompt and text, the first round included.
inline law::JointLaw expected(const toy::Target& target, const Tokens& prompt,
                              const fd::SamplingOptions& sampling, int n) {
  law::JointLaw with_prompt;
  for (const auto& [tokens, probability] : law::target_law(target, prompt, sampling, n)) {
    Tokens text = prompt;
    text.insert(text.end(), tokens.begin(), tokens.end());
    with_prompt[text] = probability;
  }
  return with_prompt;
}

using Program = std::function<void(Decoder&)>;

/// Law of the tokens after the calls of `program`, every path followed from its beginning.
inline law::JointLaw law_of_calls(toy::Target& target, const TreeFunction& drafter,
                                  const TreeRule& rule, const Program& program,
                                  EnumeratingRng::Reuse reuse = EnumeratingRng::Reuse::kRefuse) {
  return law::law_of(
      [&](fd::Rng& rng) {
        Decoder decoder{target, toy::TokenCache{32, 16}, drafter, rule};
        decoder.use_rng(&rng);
        program(decoder);
        return Tokens(decoder.tokens().begin(), decoder.tokens().end());
      },
      reuse);
}

/// The calls to make `n` tokens final, the first of which stops at `cut`.
inline Program in_two_calls(const fd::SamplingOptions& sampling, int depth, int n, int cut) {
  return [=](Decoder& decoder) {
    fd::Options options = with(sampling, depth);
    options.max_tokens = cut;
    decoder.generate(kPeriodic, options);
    options.max_tokens = n - cut;
    decoder.resume(options);
  };
}

/// The calls to make `n` tokens final, stopping behind each token 1.
inline Program stopping_at_ends(const fd::SamplingOptions& sampling, int depth, int n) {
  return [=](Decoder& decoder) {
    fd::Options options = with(sampling, depth);
    options.end_tokens = {1};
    options.max_tokens = n;
    int left = n - static_cast<int>(decoder.generate(kPeriodic, options).tokens.size());
    while (left > 0) {
      options.max_tokens = left;
      left -= static_cast<int>(decoder.resume(options).tokens.size());
    }
  };
}

}  // namespace setup
