#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/testing/exact_law.hpp>
#include <foredraft/testing/function_policies.hpp>

/// Every way to draft that an acceptance rule has to get right, as drafters without any state.
namespace foredraft::inline v0::testing {

/// q after a text.
using LawAfter = std::function<Law(const Tokens&)>;

inline Law sparse(const std::vector<double>& p) {
  Law law;
  for (std::size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) continue;
    law.ids.push_back(static_cast<TokenId>(id));
    law.p.push_back(p[id]);
  }
  return law;
}

/// Final tokens and the draft down to `node`.
inline Tokens text_at(const Context& context, const DraftTree& draft, NodeIndex node) {
  Tokens drafted;
  for (; node > 0; node = draft.parent(node)) drafted.push_back(draft.token(node));
  Tokens text(context.tokens.begin(), context.tokens.end());
  text.insert(text.end(), drafted.rbegin(), drafted.rend());
  return text;
}

/// How the children of a node are made.
struct Brood {
  Siblings made = Siblings::kPointMass;
  int count = 1;
};

/// As many nodes as the limit allows, `brood(text)` saying for each what children it gets. Drawn
/// children come from q; point-mass ones are the tokens after one that depends on the text.
template <Shape S>
FunctionDrafter<S> drafting(int n_vocab, std::function<Brood(const Tokens&)> brood, LawAfter q) {
  return {[=](const Context& context, Limit limit, DraftTree& draft) {
    for (NodeIndex node = 0; node < draft.size(); ++node) {
      if (draft.depth(node) == limit.depth) continue;
      const Tokens text = text_at(context, draft, node);
      const Brood children = brood(text);
      if (draft.drafted() + children.count > limit.nodes) return;
      if (children.made == Siblings::kPointMass) {
        TokenId token = 1;
        for (const TokenId before : text) token = (2 * token + before) % n_vocab;
        for (int i = 0; i < children.count; ++i) draft.add(node, (token + i) % n_vocab);
        continue;
      }
      Law rest = draft.drawn_from(node, children.made) = q(text);
      const bool again = children.made == Siblings::kIndependent;
      const int most =
          again ? children.count : std::min<int>(children.count, static_cast<int>(rest.size()));
      for (int i = 0; i < most; ++i) {
        const RngKey key{Purpose::kDraft, context.anchor_position(), draft.size()};
        const std::size_t chosen = context.rng->categorical(key, rest.ids, rest.p);
        draft.add(node, rest.ids[chosen]);
        if (!again) rest.p[chosen] = 0.0;
      }
    }
  }};
}

template <Shape S>
struct NamedDrafter {
  std::string name;
  FunctionDrafter<S> drafter;
};

/// Laws to draw from that are near p, far from it, and of another support.
inline std::vector<std::pair<std::string, LawAfter>> laws_for(const HashTarget& target,
                                                              const SamplingOptions& sampling) {
  const HashTarget other(target.vocab_size(), 2, 2.0, 77);
  return {
      {"q",
       [other](const Tokens& text) {
         return sparse(p_of(other.logits_after(text), {.temperature = 1.0f}));
       }},
      {"p",
       [target, sampling](const Tokens& text) {
         return sparse(p_of(target.logits_after(text), sampling, text));
       }},
      {"a law nearly disjoint from p",
       [target](const Tokens& text) {
         std::vector<float> logits = target.logits_after(text);
         for (float& x : logits) x *= -3.0f;
         return sparse(p_of(logits, {.temperature = 1.0f}));
       }},
      // Zero where p has mass; and p, cut by top-k or temperature 0, is zero where this has mass.
      {"two tokens",
       [other](const Tokens& text) {
         return sparse(p_of(other.logits_after(text), {.temperature = 1.0f, .top_k = 2}));
       }},
  };
}

/// Chains: nothing, tokens that were found (the right ones, the worst ones, arbitrary ones), tokens
/// drawn from each law, and chains of both, of a length that depends on what was drawn.
template <Shape S = Shape::kChain>
std::vector<NamedDrafter<S>> chains_for(const HashTarget& target, const SamplingOptions& sampling) {
  const int n_vocab = target.vocab_size();
  const auto found = [](std::function<TokenId(const Tokens&)> token_after) {
    return FunctionDrafter<S>{[=](const Context& context, Limit limit, DraftTree& draft) {
      for (int i = 0; i < limit.depth; ++i) {
        draft.extend(token_after(text_at(context, draft, draft.size() - 1)));
      }
    }};
  };
  const auto extreme = [target](bool greatest) {
    return [=](const Tokens& text) {
      const std::vector<float> logits = target.logits_after(text);
      const auto place = greatest ? std::max_element(logits.begin(), logits.end())
                                  : std::min_element(logits.begin(), logits.end());
      return static_cast<TokenId>(place - logits.begin());
    };
  };
  const auto always = [](Siblings made) { return [made](const Tokens&) { return Brood{made}; }; };
  const auto by_turns = [](const Tokens& text) {
    return Brood{text.size() % 2 == 0 ? Siblings::kIndependent : Siblings::kPointMass};
  };
  const auto laws = laws_for(target, sampling);
  // A draft may stop because of a token, if that token stays in it.
  const LawAfter q = laws[0].second;
  const FunctionDrafter<S> stopping{[q](const Context& context, Limit limit, DraftTree& draft) {
    for (int i = 0; i < limit.depth; ++i) {
      const Law& law = draft.drawn_from(draft.size() - 1) =
          q(text_at(context, draft, draft.size() - 1));
      const RngKey key{Purpose::kDraft, context.anchor_position(), draft.size()};
      const std::size_t chosen = context.rng->categorical(key, law.ids, law.p);
      const bool unlikely = law.p[chosen] < 0.3;
      draft.extend(law.ids[chosen]);
      if (unlikely) return;
    }
  }};
  std::vector<NamedDrafter<S>> drafters{
      {"no draft", {}},
      {"the right tokens", found(extreme(true))},
      {"the worst tokens", found(extreme(false))},
      {"arbitrary tokens", drafting<S>(n_vocab, always(Siblings::kPointMass), q)},
      {"drawn and found tokens by turns", drafting<S>(n_vocab, by_turns, q)},
      {"a draft that ends behind an unlikely token", stopping},
  };
  for (const auto& [name, law] : laws) {
    drafters.push_back(
        {"tokens drawn from " + name, drafting<S>(n_vocab, always(Siblings::kIndependent), law)});
  }
  return drafters;
}

/// Trees with two or three siblings of each making, and of all of them.
inline std::vector<NamedDrafter<Shape::kTree>> trees_for(const HashTarget& target,
                                                         const SamplingOptions& sampling) {
  constexpr Shape kTree = Shape::kTree;
  const int n_vocab = target.vocab_size();
  const auto always = [](Siblings made, int count) {
    return [=](const Tokens&) { return Brood{made, count}; };
  };
  const auto mixed = [](const Tokens& text) {
    return Brood{static_cast<Siblings>(text.size() % 3), 1 + static_cast<int>(text.size() % 2)};
  };
  const auto laws = laws_for(target, sampling);
  std::vector<NamedDrafter<kTree>> drafters{
      {"found siblings", drafting<kTree>(n_vocab, always(Siblings::kPointMass, 2), {})},
      {"siblings of all makings", drafting<kTree>(n_vocab, mixed, laws[0].second)},
  };
  for (const auto& [name, law] : laws) {
    drafters.push_back({"independent siblings from " + name,
                        drafting<kTree>(n_vocab, always(Siblings::kIndependent, 2), law)});
    drafters.push_back({"siblings without replacement from " + name,
                        drafting<kTree>(n_vocab, always(Siblings::kWithoutReplacement, 3), law)});
  }
  return drafters;
}

}  // namespace foredraft::inline v0::testing
