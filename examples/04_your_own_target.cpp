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

/// Stands for an engine of yours. Its model: count up in steps of the difference between the last
/// two digits.
struct Engine {
  std::vector<int> sequence;
  std::vector<float> decode(int token) {
    sequence.push_back(token);
    const std::size_t n = sequence.size();
    const int step = n > 1 ? (sequence[n - 1] - sequence[n - 2] + 10) % 10 : 1;
    std::vector<float> logits(10, 0.0f);
    logits[static_cast<std::size_t>((token + step) % 10)] = 5.0f;
    return logits;
  }
  void remove_from(std::size_t position) noexcept { sequence.resize(position); }
};

/// The engine's sequence as a foredraft cache. Committed positions come first, then those of the
/// staged chain that have been decoded.
class EngineCache {
 public:
  using Snapshot = std::vector<int>;
  explicit EngineCache(Engine& engine) : engine_(&engine) {}

  int size() const { return size_; }
  int capacity() const { return 1024; }
  int max_staged() const { return 64; }
  int staged() const { return static_cast<int>(staged_.size()); }
  void stage(std::span<const fd::Node> nodes) {
    staged_.insert(staged_.end(), nodes.begin(), nodes.end());
  }
  void commit(std::span<const fd::NodeIndex> path) noexcept {
    size_ += static_cast<int>(path.size());  // a chain: the accepted nodes are the first ones
    discard();
  }
  void discard() noexcept {
    engine_->remove_from(static_cast<std::size_t>(size_));
    staged_.clear();
  }
  Snapshot snapshot() const {
    return {engine_->sequence.begin(), engine_->sequence.begin() + size_};
  }
  void restore(const Snapshot& tokens) {
    engine_->sequence = tokens;
    size_ = static_cast<int>(tokens.size());
    staged_.clear();
  }

  std::vector<float> decode(fd::NodeIndex node) {
    return engine_->decode(staged_[static_cast<std::size_t>(node)].token);
  }

 private:
  Engine* engine_;
  int size_ = 0;
  std::vector<fd::Node> staged_;
};

struct EngineTarget {
  static constexpr bool row_exact = true;
  int vocab_size() const { return 10; }
  std::string piece(fd::TokenId token) const { return std::to_string(token); }
  bool is_end(fd::TokenId) const { return false; }
  void forward(std::span<fd::Request<EngineCache>> requests) {
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, vocab_size());
      for (int row = 0; row < request.count; ++row)
        request.scores->set_row(row, request.cache->decode(request.first + row));
    }
  }
};
static_assert(fd::Target<EngineTarget, EngineCache>);

int main() {
  Engine engine;
  EngineTarget target;
  fd::Decoder decoder{target, EngineCache{engine}, fd::PromptLookup{}, fd::Greedy{}};
  const auto result = decoder.generate(std::vector<fd::TokenId>{1, 4}, {.max_tokens = 40});
  std::cout << "1 4 " << result.text << "\n\n" << result.stats;
}
