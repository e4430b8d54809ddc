// A project of its own that uses foredraft; see CMakeLists.txt for the ways to find it.
// Its "model" repeats a melody of seven notes for ever. Prompt lookup finds that out and drafts it.

#include <foredraft/foredraft.hpp>
#include <foredraft/version.hpp>

#include <iostream>
#include <vector>

namespace fd = foredraft;

struct Notes {
  using Snapshot = std::vector<fd::TokenId>;
  std::vector<fd::TokenId> played, staged_notes;

  int size() const { return static_cast<int>(played.size()); }
  int capacity() const { return 256; }
  int max_staged() const { return 64; }
  int staged() const { return static_cast<int>(staged_notes.size()); }
  void stage(std::span<const fd::Node> nodes) {
    for (const fd::Node& node : nodes) staged_notes.push_back(node.token);
  }
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    played.insert(played.end(), staged_notes.begin(),
                  staged_notes.begin() + static_cast<int>(path.size()));
    staged_notes.clear();
  }
  void discard() noexcept { staged_notes.clear(); }
  Snapshot snapshot() const { return played; }
  void restore(const Snapshot& notes) { played = notes, staged_notes.clear(); }
};

struct Melody {
  static constexpr bool row_exact = true;
  int vocab_size() const { return 7; }
  void forward(std::span<fd::Request<Notes>> requests) const {
    for (auto& [cache, first, count, want, scores] : requests) {
      scores->reset(want, count, vocab_size());
      for (int row = 0; row < count; ++row) {
        std::vector<float> logits(7, 0.0f);
        logits[static_cast<std::size_t>(
                   cache->staged_notes[static_cast<std::size_t>(first + row)] * 3 + 1) %
               7] = 1;
        scores->set_row(row, logits);
      }
    }
  }
};

int main() {
  Melody melody;
  fd::Decoder decoder{melody, Notes{}, fd::PromptLookup{}, fd::Greedy{}};
  const auto result = decoder.generate(std::vector<fd::TokenId>{2}, {.max_tokens = 40});
  std::cout << "foredraft " << FOREDRAFT_VERSION_MAJOR << '.' << FOREDRAFT_VERSION_MINOR << '.'
            << FOREDRAFT_VERSION_PATCH << ": " << result.tokens.size() << " notes in "
            << result.stats.rounds << " rounds\n";
  return result.stats.accepted > 0 && result.stats.rounds < 40 ? 0 : 1;
}
