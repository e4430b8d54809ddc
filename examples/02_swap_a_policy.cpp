// 02 Swap a policy: the same target under every acceptance rule, with and without drafts.
//
// A policy is a constructor argument; its type is a template argument of Decoder, so nothing is
// looked up at run time.

#include <iostream>

#include "bigram.hpp"

namespace fd = foredraft;

template <typename D, typename A>
void show(const char* name, D drafter, A acceptance, const fd::Options& options) {
  bigram::Model target{bigram::kText};
  fd::Decoder decoder{target, bigram::Cache{}, std::move(drafter), std::move(acceptance)};
  const auto result = decoder.generate(target.encode("the cat saw"), options);
  std::cout << name << ": " << result.text << "\n    " << result.stats.rounds << " rounds for "
            << result.stats.emitted << " tokens\n";
}

int main() {
  const fd::Options greedy{.max_tokens = 24};
  show("greedy, plain ", fd::NoDraft{}, fd::Greedy{}, greedy);
  show("greedy, lookup", fd::PromptLookup{}, fd::Greedy{}, greedy);

  // With match the seed alone decides the text: drafting changes the number of rounds, never a
  // character.
  const fd::Options sampled{.max_tokens = 24, .sampling = {.temperature = 0.7f}, .seed = 3};
  show("match, plain  ", fd::NoDraft{}, fd::SampleAndMatch{}, sampled);
  show("match, lookup ", fd::PromptLookup{}, fd::SampleAndMatch{}, sampled);

  // Rejection sampling keeps the target's law too, but which text a seed stands for depends on the
  // drafts.
  show("rejection     ", fd::PromptLookup{}, fd::RejectionSampling{}, sampled);
}
