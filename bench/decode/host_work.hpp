#pragma once

#include <string>
#include <utility>

#include <foredraft/decoder.hpp>

#include "passes.hpp"

namespace bench {

/// What a round costs besides its forward passes.
struct HostWork {
  double per_round = 0;  ///< @units seconds
  double rows = 0;       ///< rows of the target that the acceptance rule looked at, a round
  double drafted = 0;    ///< tokens a round
};

/// Decode a text with drafts and take the time that is no forward pass: drafting, acceptance, commit,
/// and handing out the text.
template <typename D, typename A>
HostWork host_work(Model& model, D drafter, const A& rule, const fd::Options& options) {
  // A prompt that repeats itself, so that there is always something to draft.
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += "for (int i = 0; i < n; ++i) sum += values[i] * weights[i];\n";
  const auto prompt = model.tokenizer().encode(text);
  fd::Decoder decoder{model, Cache{model.shape(), 2048}, std::move(drafter), rule};
  decoder.prefill(prompt, options);
  const fd::Stats stats = decoder.resume(options, [](const fd::Emitted&) {}).stats;
  const auto rounds = static_cast<double>(stats.rounds);
  return {(stats.seconds.total - stats.seconds.verify) / rounds,
          static_cast<double>(stats.accepted) / rounds + 1.0,
          static_cast<double>(stats.drafted) / rounds};
}

}  // namespace bench
