#include <foredraft/drafter/suffix_draft.hpp>

#include <map>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;
using Rules = fd::SuffixDraftRules;

struct Found {
  double score = 0;
  fd::DraftTree draft;
};

Found draft_of(const fd::SuffixTree& tree, const Rules& rules) {
  std::vector<fd::SuffixTree::Locus> matches;
  for (int n = 1; n <= tree.longest_match(); ++n) matches.push_back(tree.match(n));
  fd::SuffixDraft best;
  best.consider(tree, matches, rules);
  Found found{best.score(), {}};
  found.draft.reset(0);
  best.add_to(found.draft);
  return found;
}

/// The same from counts of strings, for every match, with nothing left out.
class Oracle {
 public:
  Oracle(const Tokens& text, int depth, const Rules& rules)
      : text_(text), depth_(depth), rules_(rules) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
      for (std::size_t n = 1; n <= std::min(end, fd::idx(depth)); ++n) {
        auto& [count, newest] = counts_[string(end - n, end)];
        ++count;
        newest = end;
      }
    }
  }

  int count(const Tokens& string) const {
    const auto found = counts_.find(string);
    return found == counts_.end() ? 0 : found->second.first;
  }
  double best_score() const {
    double best = 0;
    for (std::size_t n = 1; n < std::min(text_.size(), fd::idx(depth_)); ++n) {
      const Tokens match = string(text_.size() - n, text_.size());
      if (count(match) < 2) break;
      const int worth = static_cast<int>(static_cast<double>(n) * rules_.max_spec_factor + 1e-6);
      best = std::max(best, score(match, std::min(rules_.limit.nodes, worth)));
    }
    return best;
  }

 private:
  struct Node {
    double p;
    Tokens string;
    int depth;
    bool operator<(const Node& other) const { return p < other.p; }
  };

  Tokens string(std::size_t begin, std::size_t end) const {
    return Tokens(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                  text_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  double score(const Tokens& match, int n) const {
    std::priority_queue<Node> open;
    const auto push = [&](const Node& node) {
      std::vector<std::tuple<int, std::size_t, fd::TokenId>> next;
      if (node.depth == rules_.limit.depth || node.string.size() == fd::idx(depth_)) return;
      Tokens longer = node.string;
      longer.push_back(0);
      for (fd::TokenId token = 0; token < 50; ++token) {
        longer.back() = token;
        if (const auto found = counts_.find(longer); found != counts_.end()) {
          next.emplace_back(found->second.first, found->second.second, token);
        }
      }
      std::sort(next.rbegin(), next.rend());  // the most frequent one, of equal ones the newest
      if (rules_.shape == fd::Shape::kChain && next.size() > 1) next.resize(1);
      for (const auto& [times, newest, token] : next) {
        longer.back() = token;
        const double p = node.p * times / count(node.string);
        if (p >= rules_.min_token_prob) open.push({p, longer, node.depth + 1});
      }
    };
    push({1.0, match, 0});
    double score = 0;
    for (; n > 0 && !open.empty(); --n) {
      const Node next = open.top();
      open.pop();
      score += next.p;
      push(next);
    }
    return score;
  }

  const Tokens& text_;
  int depth_;
  Rules rules_;
  std::map<Tokens, std::pair<int, std::size_t>> counts_;
};

/// The score that the draft's own confidences give.
double score_of(const fd::DraftTree& draft) {
  double score = 0;
  std::vector<double> p{1.0};
  for (fd::NodeIndex node = 1; node < draft.size(); ++node) {
    p.push_back(p[fd::idx(draft.parent(node))] * static_cast<double>(draft.confidence(node)));
    score += p.back();
  }
  return score;
}

fd::SuffixTree tree_of(const Tokens& text, int depth) {
  fd::SuffixTree tree(depth, 4096);
  for (const fd::TokenId token : text) tree.append(token);
  return tree;
}

Tokens tokens_of(const fd::DraftTree& draft) {
  Tokens tokens;
  for (const fd::Node& node : draft.nodes().subspan(1)) tokens.push_back(node.token);
  return tokens;
}

}  // namespace

TEST_CASE("a draft is the best of all matches: as if every string had been counted") {
  std::mt19937 random(9);
  for (const fd::Shape shape : {fd::Shape::kChain, fd::Shape::kTree}) {
    for (const int n_vocab : {2, 4, 30}) {
      for (const int depth : {3, 8, 24}) {
        for (const auto& [factor, least] : {std::pair{1.0, 0.1}, {2.5, 0.0}, {0.6, 0.3}}) {
          Tokens text;
          int wrong = 0;
          int drafted = 0;
          fd::SuffixTree tree(depth, 4096);
          for (int round = 0; round < 60; ++round) {
            const bool copy = text.size() > 8 && random() % 3 != 0;
            std::size_t from = text.empty() ? 0 : random() % text.size();
            for (std::size_t n = 1 + random() % 6; n > 0; --n) {
              text.push_back(
                  copy ? text[from++]
                       : static_cast<fd::TokenId>(random() % static_cast<unsigned>(n_vocab)));
              tree.append(text.back());
            }
            Rules rules{shape, factor, least, 1000, {}};
            rules.limit.depth = 1 + static_cast<int>(random() % 12);
            rules.limit.nodes = shape == fd::Shape::kChain ? rules.limit.depth
                                                           : 1 + static_cast<int>(random() % 20);
            const Found found = draft_of(tree, rules);
            const Oracle oracle(text, depth, rules);
            wrong += std::abs(found.score - oracle.best_score()) > 1e-9;
            wrong += std::abs(found.score - score_of(found.draft)) > 1e-5;
            wrong += found.draft.drafted() > rules.limit.nodes ||
                     found.draft.max_depth() > rules.limit.depth;
            drafted += found.draft.drafted();
          }
          CAPTURE(n_vocab, depth, factor, least);
          CHECK(wrong == 0);
          CHECK(drafted > 10);
        }
      }
    }
  }
}

TEST_CASE("one earlier occurrence is worth a half, and what branches is divided") {
  const Rules chain{fd::Shape::kChain, 1.0, 0.1, 1000, {8, 8}};
  const auto once = draft_of(tree_of({1, 2, 3, 4, 5, 9, 1, 2, 3}, 24), chain);
  CHECK(tokens_of(once.draft) == Tokens{4, 5, 9});  // no more than the match is long
  CHECK(once.draft.confidence(1) == 0.5f);
  CHECK(once.draft.confidence(2) == 1.0f);
  CHECK(once.score == Approx(1.5));

  const Tokens branching{1, 2, 7, 8, 1, 2, 7, 8, 1, 2, 5, 6, 1, 2};
  const Rules tree{fd::Shape::kTree, 2.5, 0.1, 1000, {8, 8}};
  const auto both = draft_of(tree_of(branching, 24), tree);
  CHECK(tokens_of(both.draft) == Tokens{7, 8, 1, 2, 5});  // four times 1/2, and 1/4
  CHECK(both.draft.parent(5) == 0);
  CHECK(both.draft.confidence(5) == 0.25f);
}

TEST_CASE("of equal drafts the longer match wins, of equal counts the newest") {
  const Rules rules{fd::Shape::kChain, 1.0, 0.1, 1000, {1, 1}};
  CHECK(tokens_of(draft_of(tree_of({1, 2, 7, 9, 1, 2, 8, 6, 1, 2}, 24), rules).draft) == Tokens{8});
  // 3 is followed by 5 twice in four times, 2 3 by 6 once in two.
  CHECK(tokens_of(draft_of(tree_of({3, 5, 3, 5, 2, 3, 6, 2, 3}, 24), rules).draft) == Tokens{6});
}

TEST_CASE("tokens outside of the vocabulary are passed over") {
  const Rules rules{fd::Shape::kTree, 4.0, 0.1, 8, {4, 4}};
  const auto found = draft_of(tree_of({1, 9, 2, 1, 9, 2, 1, 5, 2, 1}, 24), rules);
  for (const fd::TokenId token : tokens_of(found.draft)) CHECK(token < 8);
  CHECK(tokens_of(found.draft).front() == 5);
}
