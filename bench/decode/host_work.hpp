#pragma once

#include <string>

#include <foredraft/acceptance/any_acceptance.hpp>
#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>

#include "passes.hpp"

namespace bench {

/// What a round costs besides its forward passes.
struct HostWork {
  double per_round = 0;  ///< @units seconds
  double rows = 0;       ///< rows of the target that the acceptance rule looked at, a round
  double drafted = 0;    ///< tokens a round
};

/// Decode a text with drafts by prompt lookup and take the time that is no forward pass: drafting,
/// acceptance, commit, and handing out the text.
inline HostWork host_work(Model& model, const fd::AnyAcceptance& rule, const fd::Options& options) {
  // A prompt that repeats itself, so that there is always something to draft.
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += "for (int i = 0; i < n; ++i) sum += values[i] * weights[i];\n";
  const auto prompt = model.tokenizer().encode(text);
  fd::Decoder decoder{model, Cache{model.shape(), 2048}, fd::PromptLookup{}, rule};
  decoder.prefill(prompt, options);
  const fd::Stats stats = decoder.resume(options, [](const fd::Emitted&) {}).stats;
  const auto rounds = static_cast<double>(stats.rounds);
  return {(stats.seconds.total - stats.seconds.verify) / rounds,
          static_cast<double>(stats.accepted) / rounds + 1.0,
          static_cast<double>(stats.drafted) / rounds};
}

}  // namespace bench
