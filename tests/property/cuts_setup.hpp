#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/foredraft.hpp>

#include "support/function_policies.hpp"
#include "support/toy_target.hpp"

/// The texts, drafters and places from which the grid of cuts is made.
namespace cuts {

namespace fd = foredraft;
using Tokens = std::vector<fd::TokenId>;

constexpr int kVocab = 64;
constexpr int kDepth = 4;
constexpr std::size_t kCuts = 36;    // tokens at which the text is cut
constexpr std::size_t kTokens = 44;  // of the uncut text: its limit shortens no draft before a cut
constexpr int kCapacity = 256;

/// Looks back on two tokens, and computes what it says after them only once.
class Target : public toy::Target {
 public:
  explicit Target(std::uint32_t seed) : toy::Target(kVocab, 2, 4.0, seed) {}

  void forward(std::span<fd::Request<toy::TokenCache>> requests) {
    ++passes;
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, kVocab);
      if (request.want.rows == fd::RowNeed::kNothing) continue;
      for (int row = 0; row < request.count; ++row) {
        request.scores->set_row(row, row_after(request.cache->text_of(request.first + row)));
      }
    }
  }

  const std::vector<float>& row_after(const Tokens& prefix) {
    std::vector<float>& row = rows_[{prefix.at(prefix.size() - 2), prefix.back()}];
    if (row.empty()) row = logits_after(prefix);
    return row;
  }

 private:
  std::map<std::pair<fd::TokenId, fd::TokenId>, std::vector<float>> rows_;
};

/// A draft model that is often right: the target's own logits, but the opposite after some texts.
class Fallible {
 public:
  [[maybe_unused]] static constexpr bool row_exact = true;
  explicit Fallible(Target& target) : target_(target) {}
  Fallible(const Fallible&) = delete;
  Fallible& operator=(const Fallible&) = delete;

  int vocab_size() const { return kVocab; }
  void forward(std::span<fd::Request<toy::TokenCache>> requests) {
    for (auto& request : requests) {
      request.scores->reset(request.want, request.count, kVocab);
      if (request.want.rows == fd::RowNeed::kNothing) continue;
      for (int row = 0; row < request.count; ++row) {
        const Tokens prefix = request.cache->text_of(request.first + row);
        std::vector<float> logits = target_.row_after(prefix);
        if ((fd::idx(prefix.back()) * 7 + prefix.size() * 3) % 5 == 0) {
          for (float& x : logits) x = -x;
        }
        request.scores->set_row(row, logits);
      }
    }
  }

 private:
  Target& target_;
};

/// A continuation of a prompt as plain decoding writes it.
///
/// The prompt holds a copy of the text that follows, with errors, for a lookup to find: the target
/// looks back on two tokens, so the copy does not change what follows.
struct Text {
  Text(const TreeRule& rule, float temperature, std::uint32_t seed)
      : target(seed), draft(target), prompt(kTokens + 2) {
    options.max_tokens = static_cast<int>(kTokens);
    options.n_draft = kDepth;
    options.sampling.temperature = temperature;
    options.seed = seed;
    options.piece = [](fd::TokenId token) { return "[(" + std::to_string(token) + ")]"; };
    prompt.back() = static_cast<fd::TokenId>(seed % kVocab);
    tokens = plain(rule, options).tokens;
    fd::Philox noise(seed);
    for (std::size_t i = 0; i < kTokens; ++i) {
      const bool wrong = noise.bernoulli({fd::Purpose::kDraft, static_cast<int>(i), 0}, 0.15);
      prompt[i] = (tokens[i] + (wrong ? 1 : 0)) % kVocab;
    }
  }

  fd::Result plain(const TreeRule& rule, const fd::Options& how, int capacity = kCapacity) {
    fd::Decoder decoder{target, toy::TokenCache{capacity}, fd::NoDraft{}, rule};
    return decoder.generate(prompt, how);
  }

  /// Text of the first `n` tokens, up to the first match of `stop` if there is one: once more by
  /// the definition.
  std::string shown(const fd::Options& how, std::size_t n, const std::string& stop = {}) const {
    std::string all;
    for (std::size_t i = 0; i < n; ++i) all += how.piece(tokens[i]);
    return stop.empty() ? all : all.substr(0, all.find(stop));
  }

  /// Token in which the first match of `stop` ends, or kTokens.
  std::size_t completed_by(const fd::Options& how, const std::string& stop) const {
    std::string all;
    for (std::size_t i = 0; i < kTokens; ++i) {
      all += how.piece(tokens[i]);
      if (all.find(stop) != std::string::npos) return i;
    }
    return kTokens;
  }

  Target target;
  Fallible draft;
  fd::Options options;  // of an uncut call
  Tokens prompt;
  Tokens tokens;
};

struct Watch {
  struct Round {
    int depth = 0;
    std::size_t made = 0;
  };
  std::vector<Round> rounds;
  int proposals = 0;
};

/// Any drafter, seen from outside.
template <typename D>
struct Watched : D {
  Watched(D drafter, Watch& to) : D(std::move(drafter)), watch(&to) {}
  void propose(const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
    ++watch->proposals;
    D::propose(context, limit, draft);
  }
  void commit(const fd::Round& round) noexcept {
    watch->rounds.push_back({round.draft.max_depth(), round.tokens.size()});
    D::commit(round);
  }
  Watch* watch;
};

/// What a drafter proposes behind `tokens`.
template <typename D>
std::vector<fd::Node> draft_behind(D drafter, std::span<const fd::TokenId> tokens,
                                   const fd::Options& options) {
  fd::Philox rng(options.seed);
  fd::DraftTree draft;
  draft.reset(tokens.back());
  const int nodes = D::shape == fd::Shape::kChain ? kDepth : fd::DraftTree::kMaxNodes - 1;
  drafter.propose({tokens, {}, options.sampling, true, &rng}, {kDepth, nodes}, draft);
  return {draft.nodes().begin(), draft.nodes().end()};
}

/// Where a token stands in its round of the uncut run.
struct Place {
  std::size_t round = 0;
  std::size_t index = 0;     // of the round's tokens
  std::size_t accepted = 0;  // drafted tokens of the round that are right
  int depth = 0;             // of the draft
};

/// (index, accepted) of all cuts that were made. With a whole draft of kDepth tokens, index <
/// accepted is an accepted draft, with more final tokens behind it; index == accepted is the token
/// in place of a rejected draft or, at kDepth, the bonus.
using Cells = std::set<std::pair<std::size_t, std::size_t>>;

/// The cells that have to be met, from the given index on.
Cells all_cells(std::size_t first_index = 0) {
  Cells cells;
  for (std::size_t accepted = 0; accepted <= kDepth; ++accepted) {
    for (std::size_t index = first_index; index <= accepted; ++index) {
      cells.insert({index, accepted});
    }
  }
  return cells;
}

}  // namespace cuts
