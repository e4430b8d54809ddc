#include <foredraft/acceptance/rejection_sampling.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/rows.hpp"

namespace fd = foredraft;

namespace {

const fd::SamplingOptions kSampled{.temperature = 1.0f};

std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

/// One drafted token, from q or, where q is empty, found.
fd::DraftTree one_token(fd::TokenId token, const fd::Law& q) {
  fd::DraftTree draft;
  draft.reset(0);
  if (q.size() > 0) draft.drawn_from(0) = q;
  draft.extend(token);
  return draft;
}

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0.0 : 1.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst < 1e-6;  // the logits of these rows are floats
}

const std::vector<double> kP{0.5, 0.3, 0.2};
const std::vector<float> kRow = logits_of(kP);

}  // namespace

TEST_CASE("a drawn token is tested with p / q, and the residual is p - q") {
  const fd::DraftTree draft = one_token(1, {{1, 2}, {0.6, 0.4}});
  const Rows rows(draft, {kRow, kRow}, kSampled, 20);
  ScriptedRng rejects({false}, {0});
  const fd::Verdict verdict = fd::RejectionSampling{}.verify(draft, rows.sampler, rejects);
  CHECK(verdict.accepted() == 0);
  CHECK(verdict.last == 0);
  REQUIRE(rejects.questions.size() == 2);
  CHECK(rejects.questions[0].key == fd::RngKey{fd::Purpose::kAccept, 20, 1});
  CHECK(rejects.questions[0].probability == Approx(0.5));
  CHECK(rejects.questions[1].key == fd::RngKey{fd::Purpose::kResidual, 20, 0});
  CHECK(rejects.questions[1].ids == std::vector<fd::TokenId>{0});
  CHECK(near(rejects.questions[1].weights, {1.0}));
}

TEST_CASE("after full acceptance the bonus comes from p behind the draft") {
  const fd::DraftTree draft = one_token(0, {{0, 1}, {0.25, 0.75}});
  const Rows rows(draft, {kRow, logits_of({0.1, 0.2, 0.7})}, kSampled, 20);
  ScriptedRng accepts({true}, {2});
  const fd::Verdict verdict = fd::RejectionSampling{}.verify(draft, rows.sampler, accepts);
  CHECK(verdict.accepted() == 1);
  CHECK(verdict.last == 2);
  CHECK(accepts.questions[0].probability == Approx(2.0));  // p / q: certain
  CHECK(accepts.questions[1].key == fd::RngKey{fd::Purpose::kResidual, 20, 1});
  CHECK(near(accepts.questions[1].weights, {0.1, 0.2, 0.7}));
}

TEST_CASE("a token that was found is tested with p, and the residual is p without it") {
  const fd::DraftTree draft = one_token(0, {});
  const Rows rows(draft, {kRow, kRow}, kSampled);
  ScriptedRng rejects({false}, {2});
  fd::RejectionSampling{}.verify(draft, rows.sampler, rejects);
  CHECK(rejects.questions[0].probability == Approx(0.5));
  CHECK(rejects.questions[1].ids == std::vector<fd::TokenId>{1, 2});
  CHECK(near(rejects.questions[1].weights, {0.6, 0.4}));
}

TEST_CASE("a token that p forbids is never accepted") {
  const fd::SamplingOptions top2{.temperature = 1.0f, .top_k = 2};
  for (const fd::Law& q : {fd::Law{}, fd::Law{{1, 2}, {0.5, 0.5}}}) {
    const fd::DraftTree draft = one_token(2, q);
    const Rows rows(draft, {kRow, kRow}, top2);
    ScriptedRng rng({false}, {0});
    fd::RejectionSampling{}.verify(draft, rows.sampler, rng);
    CHECK(rng.questions[0].probability == 0.0);
    CHECK(rng.questions[1].ids.back() != 2);
  }
}

TEST_CASE("a residual without mass, which only rounding can ask for, is p") {
  const std::vector<float> certain{0.0f, -INFINITY, -INFINITY};
  const fd::DraftTree found = one_token(0, {});
  const fd::DraftTree drawn = one_token(0, {{0}, {1.0}});
  for (const fd::DraftTree* draft : {&found, &drawn}) {
    const Rows rows(*draft, {certain, certain}, kSampled);
    ScriptedRng rng({false}, {0});  // rejects what has probability 1
    CHECK(fd::RejectionSampling{}.verify(*draft, rows.sampler, rng).last == 0);
    CHECK(rng.questions[1].weights == std::vector<double>{1.0});
  }
}

TEST_CASE("every token after a rejection is in range, at vocabulary sizes around SIMD widths") {
  for (const std::size_t n : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u}) {
    std::vector<float> row(n, -INFINITY);  // all mass on the last token, which is drafted
    row[n - 1] = 0.0f;
    const fd::DraftTree draft = one_token(static_cast<fd::TokenId>(n - 1), {});
    const Rows rows(draft, {row, row}, kSampled);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      fd::Philox rng(seed);
      const fd::Verdict verdict = fd::RejectionSampling{}.verify(draft, rows.sampler, rng);
      CHECK(verdict.accepted() == 1);
      CHECK(verdict.last == static_cast<fd::TokenId>(n - 1));
    }
  }
}

TEST_CASE("rejection sampling: a q that the token cannot have been drawn from is refused") {
  fd::Philox rng;
  for (const fd::Law& q :
       {fd::Law{{1, 2}, {0.5, 0.5}}, fd::Law{{0, 1}, {0.0, 1.0}}, fd::Law{{0}, {std::nan("")}}}) {
    const fd::DraftTree draft = one_token(0, q);
    const Rows rows(draft, {kRow, kRow}, kSampled);
    CHECK_THROWS_AS(fd::RejectionSampling{}.verify(draft, rows.sampler, rng), fd::Error);
  }
}

TEST_CASE("at temperature 0 a drawn token is accepted exactly if it is the best") {
  for (fd::TokenId token = 0; token < 3; ++token) {
    const fd::DraftTree draft = one_token(token, {{0, 1, 2}, {0.2, 0.3, 0.5}});
    const Rows rows(draft, {{0, 4, 0}, {9, 0, 0}}, {});
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      fd::Philox rng(seed);
      const fd::Verdict verdict = fd::RejectionSampling{}.verify(draft, rows.sampler, rng);
      CHECK(verdict.accepted() == (token == 1));
      CHECK(verdict.last == (token == 1 ? 0 : 1));
    }
  }
}

namespace {

/// Siblings behind the anchor.
fd::DraftTree siblings(fd::Siblings made, const fd::Law& q,
                       const std::vector<fd::TokenId>& tokens) {
  fd::DraftTree draft;
  draft.reset(0);
  if (made != fd::Siblings::kPointMass) draft.drawn_from(0, made) = q;
  for (const fd::TokenId token : tokens) draft.add(0, token);
  return draft;
}

/// Probabilities of the accept tests when all siblings are rejected, then the weights of the draw.
std::vector<std::vector<double>> tests_of(const fd::DraftTree& draft, fd::TokenId last) {
  const Rows rows(draft, std::vector<std::vector<float>>(fd::idx(draft.size()), kRow), kSampled);
  ScriptedRng rejects(std::deque<bool>(fd::idx(draft.drafted()), false), {last});
  fd::RejectionSampling{}.verify(draft, rows.sampler, rejects);
  std::vector<std::vector<double>> asked(1);
  for (const auto& question : rejects.questions) {
    if (question.ids.empty()) asked[0].push_back(question.probability);
  }
  asked.push_back(rejects.questions.back().weights);
  return asked;
}

}  // namespace

TEST_CASE("found siblings share out p") {
  const auto asked = tests_of(siblings(fd::Siblings::kPointMass, {}, {1, 0}), 2);
  CHECK(near(asked[0], {0.3, 0.5 / 0.7}));
  CHECK(near(asked[1], {1.0}));
}

TEST_CASE("independent siblings are each tested with q against what is left of p") {
  // p = .5 .3 .2, q = .2 .2 .6; after the first rejection p is .3 .1 0, that is .75 .25 0; after
  // the second .55 .05.
  const fd::Law q{{0, 1, 2}, {0.2, 0.2, 0.6}};
  const auto asked = tests_of(siblings(fd::Siblings::kIndependent, q, {2, 2}), 0);
  CHECK(near(asked[0], {0.2 / 0.6, 0.0}));
  CHECK(near(asked[1], {0.55 / 0.6, 0.05 / 0.6}));
}

TEST_CASE("siblings without replacement are tested with what is left of q") {
  // As above; with 2 gone, q is .5 .5: the residual .75 .25 keeps .25 at token 0 alone.
  const fd::Law q{{0, 1, 2}, {0.2, 0.2, 0.6}};
  const auto asked = tests_of(siblings(fd::Siblings::kWithoutReplacement, q, {2, 1}), 0);
  CHECK(near(asked[0], {0.2 / 0.6, 0.5}));
  CHECK(near(asked[1], {1.0}));
}

TEST_CASE("a second sibling without replacement that equals the first is refused") {
  fd::Philox rng;
  const fd::DraftTree draft =
      siblings(fd::Siblings::kWithoutReplacement, {{1, 2}, {0.5, 0.5}}, {2, 2});
  const Rows rows(draft, {{0, -99, -99}, kRow, kRow}, kSampled);  // rejects the first
  CHECK_THROWS_AS(fd::RejectionSampling{}.verify(draft, rows.sampler, rng), fd::Error);
}

TEST_CASE("an accepted sibling is descended into, the others are left alone") {
  fd::DraftTree draft = siblings(fd::Siblings::kPointMass, {}, {0, 1});
  draft.add(1, 2);                              // node 3, below token 0
  const fd::NodeIndex below = draft.add(2, 0);  // node 4, below token 1
  const Rows rows(draft, std::vector<std::vector<float>>(5, kRow), kSampled);
  ScriptedRng rng({false, true, true}, {2});
  const fd::Verdict verdict = fd::RejectionSampling{}.verify(draft, rows.sampler, rng);
  CHECK(
      std::vector<fd::NodeIndex>(verdict.path.begin(), verdict.path.begin() + verdict.path_size) ==
      std::vector<fd::NodeIndex>{0, 2, below});
  CHECK(verdict.last == 2);
}
