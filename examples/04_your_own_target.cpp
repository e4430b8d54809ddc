// 04 Your own target: an engine that keeps its own forward pass and its own cache.
//
// Most engines decode a batch of tokens at the end of a sequence and can remove positions again.
// That is enough: stage() takes notes, forward() decodes, commit() and discard() remove what was
// not accepted.

#include <iostream>
#include <string>
#include <vector>

#include <foredraft/foredraft.hpp>

namespace fd = foredraft;

/// Stands for an engine of yours. Its model: go on in steps of the difference of the last two
/// digits.
struct Engine {
  std::vector<int> sequence;
  std::vector<float> decode(int token) {
    const int step = sequence.empty() ? 1 : (token - sequence.back() + 10) % 10;
    sequence.push_back(token);
    std::vector<float> logits(10, 0.0f);
    logits[fd::idx((token + step) % 10)] = 5.0f;
    return logits;
  }
  void remove_from(int position) noexcept { sequence.resize(fd::idx(position)); }
};

/// The engine's sequence as a cache: committed positions, then the staged ones that it has decoded.
struct EngineCache {
  using Snapshot = std::vector<int>;
  static constexpr fd::Shape shape = fd::Shape::kChain;  // refuses drafters of trees
  Engine* engine;
  int committed = 0;
  fd::StagedTree nodes = fd::StagedTree(64);

  int size() const { return committed; }
  int capacity() const { return 1024; }
  int max_staged() const { return nodes.max_size(); }
  int staged() const { return nodes.size(); }
  void stage(std::span<const fd::Node> more) { nodes.stage(more); }
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    committed += static_cast<int>(path.size());  // of a chain, the first nodes are accepted
    discard();
  }
  void discard() noexcept { engine->remove_from(committed), nodes.discard(); }
  Snapshot snapshot() const {
    return {engine->sequence.begin(), engine->sequence.begin() + committed};
  }
  void restore(const Snapshot& tokens) {
    engine->sequence = tokens, nodes.discard();
    committed = static_cast<int>(tokens.size());
  }
};

struct EngineTarget {
  static constexpr bool row_exact = true;
  int vocab_size() const { return 10; }
  std::string piece(fd::TokenId token) const { return std::to_string(token); }
  bool is_end(fd::TokenId) const { return false; }
  void forward(std::span<fd::Request<EngineCache>> requests) {
    for (auto& [cache, first, count, want, scores] : requests) {
      scores->reset(want, count, vocab_size());
      for (int row = 0; row < count; ++row) {
        scores->set_row(row, cache->engine->decode(cache->nodes.token(first + row)));
      }
    }
  }
};
static_assert(fd::Target<EngineTarget, EngineCache>);

int main() {
  Engine engine;
  EngineTarget target;
  fd::Decoder decoder{target, EngineCache{&engine}, fd::PromptLookup{}, fd::Greedy{}};
  const auto result = decoder.generate(std::vector<fd::TokenId>{1, 4}, {.max_tokens = 40});
  std::cout << "1 4 " << result.text << "\n\n" << result.stats;
}
