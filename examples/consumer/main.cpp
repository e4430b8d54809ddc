// A project of its own that uses foredraft; see CMakeLists.txt for the ways to find it.
// Its "model" repeats a melody of seven notes for ever. Prompt lookup finds that out and drafts it.

#include <foredraft/foredraft.hpp>
#include <foredraft/version.hpp>

#include <iostream>
#include <vector>

namespace fd = foredraft;

struct Melody {
  static constexpr bool row_exact = true;
  int vocab_size() const { return 7; }
  void forward(std::span<fd::Request<fd::TokenCache>> requests) const {
    for (auto& [cache, first, count, want, scores] : requests) {
      scores->reset(want, count, vocab_size());
      for (int row = 0; row < count; ++row) {
        std::vector<float> logits(7, 0.0f);
        logits[fd::idx(cache->token(first + row) * 3 + 1) % 7] = 1;
        scores->set_row(row, logits);
      }
    }
  }
};

int main() {
  Melody melody;
  fd::Decoder decoder{melody, fd::TokenCache{256}, fd::PromptLookup{}, fd::Greedy{}};
  const auto result = decoder.generate(std::vector<fd::TokenId>{2}, {.max_tokens = 40});
  std::cout << "foredraft " << FOREDRAFT_VERSION_MAJOR << '.' << FOREDRAFT_VERSION_MINOR << '.'
            << FOREDRAFT_VERSION_PATCH << ": " << result.tokens.size() << " notes in "
            << result.stats.rounds << " rounds\n";
  return result.stats.accepted > 0 && result.stats.rounds < 40 ? 0 : 1;
}
