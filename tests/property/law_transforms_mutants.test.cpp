// Each way to lose the law with a transform is caught, and its repair passes.

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "property/law_setup.hpp"
#include "property/mutants.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using law::Tokens;
using mutants::drawn;
using setup::kCaught;
using setup::kExact;
using setup::some_q;

namespace {

/// Rejection sampling of found tokens on a chain, with p as `p_at` makes it of the final tokens and
/// the draft. The rule learns the text from the drafter, which is asked before it.
struct Book {
  using LawAt = std::function<fd::Law(const Tokens& text, const Tokens& drafted)>;
  using Seen = std::function<void(const Tokens& text, const Tokens& drafted, const Tokens& made)>;

  explicit Book(LawAt law, Seen when_seen = {}) {
    const auto text = std::make_shared<Tokens>();
    drafter.function = [text](const fd::Context& context, fd::Limit limit, fd::DraftTree& draft) {
      text->assign(context.tokens.begin(), context.tokens.end());
      for (int i = 0; i < limit.depth; ++i) draft.extend((draft.token(i) + 1) % 3);
    };
    rule.function = [text, law, when_seen](const fd::DraftTree& draft, const fd::RowSampler& rows,
                                           fd::Rng& rng) mutable {
      if (draft.drafted() == 0 && text->size() != fd::idx(rows.anchor_position()) + 1)
        *text = {0, 1};  // the first round after the prompt of law_distance() asks no drafter
      fd::Verdict verdict;
      verdict.start();
      Tokens drafted;
      for (fd::NodeIndex node = 0;; ++node) {
        const fd::Law p = law(*text, drafted);
        if (node == draft.drafted()) {
          verdict.last = draw(p, rows, rng, node);
          break;
        }
        const fd::TokenId token = draft.token(node + 1);
        if (!rng.bernoulli({fd::Purpose::kAccept, rows.anchor_position(), node + 1}, p(token))) {
          verdict.last = draw(fd::residual(1.0, p, fd::point_mass(token)), rows, rng, node);
          break;
        }
        verdict.accept(node + 1);
        drafted.push_back(token);
      }
      Tokens made = drafted;
      made.push_back(verdict.last);
      Tokens all;
      for (fd::NodeIndex node = 1; node <= draft.drafted(); ++node)
        all.push_back(draft.token(node));
      if (when_seen) when_seen(*text, all, made);
      return verdict;
    };
  }

  static fd::TokenId draw(const fd::Law& p, const fd::RowSampler& rows, fd::Rng& rng,
                          fd::NodeIndex node) {
    const fd::RngKey key{fd::Purpose::kResidual, rows.anchor_position(), node};
    return p.ids[rng.categorical(key, p.ids, p.p)];
  }

  TreeFunction drafter;
  TreeRule rule;
};

double distance(const TreeFunction& drafter, const TreeRule& rule,
                const fd::SamplingOptions& sampling, int depth = 2) {
  toy::Target target(3, 0, 1.5, 5);
  return law::law_distance(target, drafter, rule, sampling, depth);
}

Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

}  // namespace

TEST_CASE("mutant: a transform that the draw saw is not in the q that is handed over") {
  toy::Target draft_model(3, 2, 2.0, 77);
  for (const fd::SamplingOptions& sampling : law::law_stepwise_transforms()) {
    if (sampling.greedy()) continue;
    const law::LawAfter transformed = [=](const Tokens& text) {
      return law::sparse(law::p_of(draft_model.logits_after(text), sampling, text, 1.0));
    };
    CAPTURE(&sampling - law::law_stepwise_transforms().data());
    for (const TreeRule& rule : {setup::kRejection, setup::kBlock}) {
      CHECK(distance(drawn({.draw_from = transformed}), rule, sampling) <= kExact);
      CHECK(distance(drawn({.draw_from = transformed, .hand_over = some_q(3)}), rule, sampling) >
            kCaught);
    }
  }
}

TEST_CASE("mutant: what looks back sees the final tokens, but not the draft") {
  toy::Target target(3, 0, 1.5, 5);
  for (const fd::SamplingOptions& sampling : std::vector<fd::SamplingOptions>{
           {.temperature = 1.0f, .frequency_penalty = 0.5f},
           {.temperature = 1.0f, .bad_words = {{1, 2}, {0, 1}}},
           {.temperature = 1.0f, .dry_multiplier = 0.8f, .dry_allowed_length = 1},
           {.temperature = 1.0f, .reasoning = {.tokens = 1, .open = {0}, .close = {2}}}}) {
    const auto law_seeing = [&](bool draft) {
      return Book([=, &target](const Tokens& text, const Tokens& drafted) {
        const Tokens path = joined(text, drafted);
        return law::sparse(law::p_of(target.logits_after(path), sampling, draft ? path : text));
      });
    };
    const Book right = law_seeing(true);
    const Book wrong = law_seeing(false);
    CHECK(distance(right.drafter, right.rule, sampling) <= kExact);
    CHECK(distance(wrong.drafter, wrong.rule, sampling) > kCaught);
  }
}

TEST_CASE("mutant: the state of mirostat is moved by a rejected draft") {
  toy::Target target(3, 0, 1.5, 5);
  const fd::SamplingOptions sampling{
      .temperature = 1.0f, .mirostat = 2, .mirostat_tau = 0.9f, .mirostat_eta = 1.0f};
  const auto law_moved_by = [&](bool all_drafts) {
    const auto moved_by = std::make_shared<std::map<Tokens, double>>();  // bound behind a text
    const auto p_at = [=, &target](const Tokens& text, const Tokens& drafted) {
      double bound = moved_by->contains(text) ? moved_by->at(text) : 2.0 * sampling.mirostat_tau;
      Tokens path = text;
      for (const fd::TokenId token : drafted) {
        const auto p = law::p_of(target.logits_after(path), sampling, path, bound);
        bound += sampling.mirostat_eta * (sampling.mirostat_tau + std::log2(p[fd::idx(token)]));
        path.push_back(token);
      }
      return std::pair(law::p_of(target.logits_after(path), sampling, path, bound), bound);
    };
    return Book([=](const Tokens& text,
                    const Tokens& drafted) { return law::sparse(p_at(text, drafted).first); },
                [=](const Tokens& text, const Tokens& drafted, const Tokens& made) {
                  double bound = p_at(text, made).second;
                  if (all_drafts && !drafted.empty() && drafted.front() != made.front()) {
                    const double p = p_at(text, {}).first[fd::idx(drafted.front())];
                    if (p > 0) {
                      bound += sampling.mirostat_eta * (sampling.mirostat_tau + std::log2(p));
                    }
                  }
                  (*moved_by)[joined(text, made)] = bound;
                });
  };
  const Book right = law_moved_by(false);
  const Book wrong = law_moved_by(true);
  CHECK(distance(right.drafter, right.rule, sampling, 1) <= kExact);
  CHECK(distance(wrong.drafter, wrong.rule, sampling, 1) > kCaught);
}
