// 01 Hello: a target, a cache, a drafter, an acceptance rule, and the loop that ties them together.

#include <iostream>

#include "bigram.hpp"

namespace fd = foredraft;

int main() {
  bigram::Model target{bigram::kText};

  // PromptLookup drafts by finding the end of the text further up; Greedy keeps a draft while it is
  // the target's own best token. So the text is what the target alone would have written.
  fd::Decoder decoder{target, bigram::Cache{}, fd::PromptLookup{}, fd::Greedy{}};

  const auto result = decoder.generate(target.encode("the mouse"), {.max_tokens = 30},
                                       [](const fd::Emitted& token) { std::cout << token.text; });
  std::cout << "\n\n" << result.stats;
}
