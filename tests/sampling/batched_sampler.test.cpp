#include <foredraft/sampling/batched_sampler.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/no_draft.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/path_constraint.hpp"
#include "support/runs.hpp"
#include "support/throws.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

namespace {

using Tokens = std::vector<fd::TokenId>;

/// Every transform, alone and in company; the last ones are those of other slots, too.
std::vector<fd::SamplingOptions> transforms() {
  std::vector<fd::SamplingOptions> all = ft::law_transforms();
  const auto& stepwise = ft::law_stepwise_transforms();
  all.insert(all.end(), stepwise.begin(), stepwise.end());
  all.push_back({.temperature = 1.0f, .reasoning = {2, {1}, {0}, {2, 2}}});
  all.push_back({.temperature = 1.0f, .min_p = 0.7f});
  all.push_back({.temperature = 1.0f, .top_k = 2});
  all.push_back({.temperature = 0.0f});
  all.push_back({.temperature = 1.0f, .mirostat = 2, .mirostat_tau = 0.9f, .mirostat_eta = 1.0f});
  return all;
}

fd::SlotOptions slot_options(const fd::Options& options, std::size_t n_prompt) {
  fd::SlotOptions slot{options.sampling, options.seed, options.sequence, options.logprobs};
  if (options.min_tokens > 0) {
    slot.sampling.held_back = {{options.end_tokens},
                               static_cast<fd::Position>(n_prompt) + options.min_tokens};
  }
  return slot;
}

fd::Result in_the_loop(toy::Target& target, const Tokens& prompt, const fd::Options& options) {
  fd::Decoder decoder{target, toy::TokenCache{}, fd::NoDraft{}, fd::SampleAndMatch{}};
  return decoder.generate(prompt, options);
}

/// A sequence, and what the loop emits of it when nobody else is there.
struct Sequence {
  Tokens prompt;
  fd::Options options;
  std::shared_ptr<PathConstraint> constraint = {};
  fd::Result truth = {};
  int slot = -1;
  std::size_t made = 0;  // tokens of the truth that its slot has committed

  Tokens text() const {
    Tokens tokens = prompt;
    tokens.insert(tokens.end(), truth.tokens.begin(),
                  truth.tokens.begin() + static_cast<std::ptrdiff_t>(made));
    return tokens;
  }
  bool done() const { return made == truth.tokens.size(); }
};

std::vector<Sequence> sequences(toy::Target& target) {
  std::vector<Sequence> all;
  for (const fd::SamplingOptions& sampling : transforms()) {
    Sequence one{{3, 1, static_cast<fd::TokenId>(all.size() % 3)}, {.max_tokens = 30}};
    one.options.sampling = sampling;
    one.options.seed = all.size() / 2;
    one.options.sequence = static_cast<std::uint32_t>(all.size());
    if (all.size() % 2 == 1) {
      one.constraint = std::make_shared<PathConstraint>(arbitrary_constraint(target.vocab_size()));
      one.options.constraint = *one.constraint;
    }
    if (all.size() % 4 == 0) {
      one.options.end_tokens = {2};
      one.options.min_tokens = 12;
    }
    if (all.size() % 3 == 2) one.options.logprobs = static_cast<int>(all.size()) % 4;
    one.truth = in_the_loop(target, one.prompt, one.options);
    all.push_back(std::move(one));
  }
  return all;
}

/// The rows of a step, with all that they refer to.
struct Step {
  void add(const Sequence& one, const toy::Target& target, std::mt19937& random) {
    logits.push_back(target.logits_after(one.text()));
    runs.emplace_back(logits.back(),
                      one.options.sampling.greedy() ? 1.0f : one.options.sampling.temperature);
    masks.emplace_back();
    if (one.constraint) {
      const auto answer = std::make_shared<const Tokens>(
          one.truth.tokens.begin(),
          one.truth.tokens.begin() + static_cast<std::ptrdiff_t>(one.made));
      masks.back() = one.constraint->mask(answer);
    }
    const fd::Runs known[] = {{}, runs.back().maxima(), runs.back().all()};
    rows.push_back({one.slot, logits.back(), known[random() % 3], masks.back().get()});
  }
  std::deque<std::vector<float>> logits;
  std::deque<RunsOf> runs;
  std::vector<std::shared_ptr<const fd::TokenSet>> masks;
  std::vector<fd::SlotRow> rows;
};

/// Into the lowest free slot, with its text so far as the prompt, or a part of it.
void enter(fd::BatchedSampler& sampler, Sequence& one, std::mt19937& random) {
  const Tokens text = one.text();
  const std::size_t n = 1 + random() % text.size();
  one.slot = sampler.add(slot_options(one.options, one.prompt.size()), std::span(text).first(n));
  sampler.extend(one.slot, std::span(text).subspan(n));
}

/// Workers of an engine's own: one after the other, the last one first.
struct Backwards {
  int n;
  int size() const { return n; }
  template <typename Body>
  void run(Body&& body) const {
    for (int worker = n - 1; worker >= 0; --worker) body(worker);
  }
};

/// Workers that do nothing.
struct Idle {
  int size() const { return 1; }
  void run(const auto&) const {}
};

/// One step of some of those in `open`. @return whether all tokens are those of the loop
bool step_some(fd::BatchedSampler& sampler, const std::vector<Sequence*>& open,
               const toy::Target& target, std::mt19937& random, fd::cpu::ThreadPool& pool) {
  Step step;
  const std::size_t n = 1 + random() % open.size();
  for (std::size_t i = 0; i < n; ++i) step.add(*open[i], target, random);
  const unsigned who = random() % 4;
  const auto drawn = who == 0   ? sampler.step(step.rows, pool)
                     : who == 1 ? sampler.step(step.rows, Backwards{5})
                                : sampler.step(step.rows);
  bool same = drawn.size() == n;
  for (std::size_t i = 0; i < n; ++i) {
    Sequence& one = *open[i];
    same &= drawn[i].slot == one.slot && drawn[i].token == one.truth.tokens[one.made];
    same &= (drawn[i].logprobs != nullptr) == (one.options.logprobs >= 0);
    if (drawn[i].logprobs) same &= *drawn[i].logprobs == one.truth.logprobs[one.made];
    if (random() % 4 == 0) continue;  // drawn for nothing
    sampler.commit(one.slot);
    if (random() % 4 == 0) sampler.commit(one.slot);  // there is nothing more to commit
    ++one.made;
    same &= sampler.position(one.slot) == static_cast<fd::Position>(one.text().size());
  }
  return same;
}

}  // namespace

TEST_CASE("every token is that of the loop alone, whatever comes together, in whatever order") {
  for (const int n_vocab : {8, 300}) {
    toy::Target target(n_vocab, 2, 1.5);
    std::vector<Sequence> all = sequences(target);
    fd::cpu::ThreadPool pool(3);
    for (unsigned schedule = 0; schedule < 4; ++schedule) {
      CAPTURE(n_vocab, schedule);
      std::mt19937 random(schedule);
      fd::BatchedSampler sampler(n_vocab, 64, 1 + static_cast<int>(schedule));
      for (Sequence& one : all) one.slot = -1, one.made = 0;
      bool same = true;
      for (int steps = 0; steps < 400 && same; ++steps) {
        std::vector<Sequence*> open;
        std::shuffle(all.begin(), all.end(), random);
        for (Sequence& one : all) {
          // Mirostat's bound is behind what was drawn here: such a slot stays where it is.
          const bool movable = one.options.sampling.mirostat == 0 || one.made == 0;
          if (one.slot >= 0 && (one.done() || (movable && random() % 20 == 0))) {
            sampler.remove(std::exchange(one.slot, -1));
          } else if (one.slot < 0 && !one.done() && random() % 3 == 0) {
            enter(sampler, one, random);
          }
          if (one.slot >= 0) open.push_back(&one);
        }
        CHECK(sampler.size() == static_cast<int>(open.size()));
        if (!open.empty()) same = step_some(sampler, open, target, random, pool);
      }
      CHECK(same);
      CHECK(std::all_of(all.begin(), all.end(), [](const Sequence& one) { return one.done(); }));
    }
  }
}

TEST_CASE("the loop of an engine that samples many sequences") {
  toy::Target target(300, 2, 1.5);
  std::vector<Tokens> texts{{3, 1}, {4}, {1, 5, 9}};
  const std::vector<Tokens> prompts = texts;
  // docs/design/sampling.md: begin
  fd::BatchedSampler sampler(target.vocab_size(), /*n_ctx=*/64);
  const fd::SamplingOptions warm{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f};
  for (std::uint64_t seed = 0; seed < texts.size(); ++seed) {
    sampler.add({.sampling = warm, .seed = seed}, texts[seed]);
  }
  std::vector<std::vector<float>> logits(texts.size());
  std::vector<fd::SlotRow> rows(texts.size());
  for (int i = 0; i < 16; ++i) {
    for (std::size_t slot = 0; slot < texts.size(); ++slot) {
      logits[slot] = target.logits_after(texts[slot]);  // your engine's pass
      rows[slot] = {static_cast<int>(slot), logits[slot]};
    }
    for (const fd::SlotToken& drawn : sampler.step(rows)) {
      texts[fd::idx(drawn.slot)].push_back(drawn.token);
      sampler.commit(drawn.slot);
    }
  }
  // docs/design/sampling.md: end
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Tokens alone = prompts[i];
    const Tokens made =
        in_the_loop(target, prompts[i], {.max_tokens = 16, .sampling = warm, .seed = i}).tokens;
    alone.insert(alone.end(), made.begin(), made.end());
    CHECK(texts[i] == alone);
  }
}

TEST_CASE("the law of a slot's text is the target's, exactly, in company") {
  toy::Target target(3, 0, 1.5, 5);
  const Tokens prompt{0, 1};
  for (const fd::SamplingOptions& sampling : transforms()) {
    const ft::JointLaw law = ft::law_of([&](fd::Rng& rng) {
      fd::BatchedSampler sampler(3, 16);
      const int other = sampler.add({.sampling = {.temperature = 0.7f}}, prompt);
      const int slot = sampler.add({.sampling = sampling, .rng = &rng}, prompt);
      Tokens text = prompt;
      for (int i = 0; i < 3; ++i) {
        const auto logits = target.logits_after(text);
        const fd::SlotRow rows[] = {{slot, logits}, {other, logits}};
        text.push_back(sampler.step(rows)[0].token);
        (void)sampler.step({rows, 1});  // again: nothing has moved
        sampler.commit(slot);
        sampler.commit(other);
      }
      return Tokens(text.begin() + 2, text.end());
    });
    CHECK(ft::total_variation(law, ft::target_law(target, prompt, sampling, 3)) <= 1e-12);
  }
}

TEST_CASE("a step allocates nothing, not even the first") {
  constexpr int kVocab = 700;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<fd::SamplingOptions> all = transforms();
  all.push_back({.temperature = 5.0f, .top_p = 0.99f});  // keeps hundreds of tokens
  all.push_back({.temperature = 1.0f, .top_k = 400, .typical_p = 0.99f});
  fd::TokenSet allowed(kVocab);
  for (fd::TokenId token = 0; token < kVocab; token += 2) allowed.add(token);
  std::vector<std::vector<float>> logits;
  fd::cpu::ThreadPool pool(2);
  fd::BatchedSampler sampler(kVocab, 64, pool.size());
  for (const fd::SamplingOptions& sampling : all) {
    sampler.add({sampling, logits.size(), 0, static_cast<int>(logits.size()) % 6 - 1},
                Tokens(30, 1));
    logits.emplace_back(kVocab);
    for (float& x : logits.back()) x = normal(random);
  }
  std::vector<fd::SlotRow> rows;
  for (int slot = sampler.size() - 1; slot >= 0; --slot) {
    rows.push_back({slot, logits[fd::idx(slot)], {}, slot % 3 == 0 ? &allowed : nullptr});
  }
  const auto before = memory::allocations.load();
  for (std::size_t n = 1; n <= 30; ++n) {
    const auto some = std::span(rows).first(1 + n % rows.size());
    for (const fd::SlotToken& drawn : n % 2 == 0 ? sampler.step(some) : sampler.step(some, pool)) {
      sampler.commit(drawn.slot);
    }
  }
  CHECK(memory::allocations == before);
}

TEST_CASE(
    "tenstorrent/vllm-tt-plugin#118: a slot given away again knows nothing of the one before") {
  const fd::SlotOptions options{
      .sampling = {.temperature = 1.0f, .presence_penalty = 3.0f, .mirostat = 2}, .seed = 4};
  const std::vector<float> logits{1.0f, 0.5f, 0.2f, 0.0f, 0.1f};
  const auto text_of = [&](fd::BatchedSampler& sampler, int slot) {
    Tokens text;
    for (int i = 0; i < 12; ++i) {
      const fd::SlotRow row{slot, logits};
      text.push_back(sampler.step({&row, 1})[0].token);
      sampler.commit(slot);
    }
    return text;
  };
  fd::BatchedSampler sampler(5, 64);
  const Tokens prompt{2};
  const Tokens fresh = text_of(sampler, sampler.add(options, prompt));
  sampler.remove(0);
  CHECK(sampler.add(options, prompt) == 0);
  CHECK(text_of(sampler, 0) == fresh);
}

TEST_CASE("a step that throws names the slot and has drawn nothing; the others go on without it") {
  fd::BatchedSampler sampler(3, 8);
  const Tokens prompt{0};
  for (int i = 0; i < 3; ++i) sampler.add({.sampling = {.temperature = 1.0f}}, prompt);
  const std::vector<float> good{0.0f, 1.0f, 2.0f};
  const std::vector<float> bad{0.0f, std::nanf(""), 2.0f};
  const fd::TokenSet nothing(3);
  fd::SlotRow rows[] = {{2, good}, {0, good}, {1, bad}};
  std::string found;
  try {
    sampler.step(rows);
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidLogits);
    found = error.found();
  }
  CHECK(found.find("of slot 1") != std::string::npos);
  for (const int slot : {0, 1, 2}) {
    sampler.commit(slot);
    CHECK(sampler.position(slot) == 1);
  }
  rows[2] = {1, good, {}, &nothing};
  CHECK(code_of([&] { sampler.step(rows); }) == fd::ErrorCode::kInvalidConstraint);
  CHECK(sampler.step(std::span(rows).first(2)).size() == 2);
}

TEST_CASE("of several rows that fail the same one is named, however many workers there are") {
  constexpr int kSlots = 9;
  const Tokens prompt{0};
  const std::vector<float> good{0.0f, 1.0f, 2.0f};
  const std::vector<float> bad{0.0f, std::nanf(""), 2.0f};
  fd::cpu::ThreadPool pool(3);
  fd::BatchedSampler sampler(3, 8, 3);
  std::vector<fd::SlotRow> rows;
  for (int slot = 0; slot < kSlots; ++slot) {
    sampler.add({.sampling = {.temperature = 1.0f}}, prompt);
    rows.push_back({slot, slot >= 4 ? bad : good});
  }
  const auto failing = [&](auto&& workers) {
    try {
      sampler.step(rows, workers);
    } catch (const fd::Error& error) {
      return error.found();
    }
    return std::string();
  };
  const std::string alone = failing(fd::OneWorker{});
  CHECK(alone.find("of slot 4") != std::string::npos);
  for (int i = 0; i < 100; ++i) CHECK(failing(pool) == alone);
  CHECK(failing(Backwards{3}) == alone);
  for (fd::SlotRow& row : rows) row.logits = good;
  CHECK(sampler.step(rows, pool).size() == kSlots);  // nothing is left of the failure
}

TEST_CASE("workers that do not do what is asked of them are an error, and nothing is drawn") {
  const Tokens prompt{0};
  const std::vector<float> good{0.0f, 1.0f, 2.0f};
  fd::BatchedSampler sampler(3, 8);
  sampler.add({}, prompt);
  const fd::SlotRow row{0, good};
  CHECK(code_of([&] { sampler.step({&row, 1}, Idle{}); }) == fd::ErrorCode::kInvalidOption);
  sampler.commit(0);
  CHECK(sampler.position(0) == 1);
  CHECK(sampler.step({&row, 1})[0].token == 2);
}

TEST_CASE("what does not fit is refused") {
  using fd::ErrorCode;
  fd::BatchedSampler sampler(3, 4);
  const Tokens prompt{0, 1};
  const auto adding = [&](const fd::SlotOptions& options, const Tokens& tokens) {
    return code_of([&] { sampler.add(options, tokens); });
  };
  CHECK(adding({}, {}) == ErrorCode::kEmptyPrompt);
  CHECK(adding({}, {0, 3}) == ErrorCode::kTokenOutOfRange);
  CHECK(adding({}, {0, -1}) == ErrorCode::kTokenOutOfRange);
  CHECK(adding({}, {0, 0, 0, 0}) == ErrorCode::kContextOverflow);
  CHECK(adding({.sampling = {.temperature = -1.0f}}, prompt) == ErrorCode::kInvalidOption);
  CHECK(adding({.logprobs = 4}, prompt) == ErrorCode::kInvalidOption);
  CHECK(sampler.size() == 0);

  CHECK(sampler.add({}, prompt) == 0);
  const std::vector<float> logits{0.0f, 1.0f, 2.0f};
  const auto stepping = [&](std::vector<fd::SlotRow> rows) {
    return code_of([&] { sampler.step(rows); });
  };
  CHECK(stepping({{1, logits}}) == ErrorCode::kInvalidOption);
  CHECK(stepping({{-1, logits}}) == ErrorCode::kInvalidOption);
  CHECK(stepping({{0, std::span(logits).first(2)}}) == ErrorCode::kInvalidOption);
  CHECK(stepping({{0, logits}, {0, logits}}) == ErrorCode::kInvalidOption);
  CHECK(code_of([&] { sampler.remove(1); }) == ErrorCode::kInvalidOption);
  CHECK(code_of([&] { sampler.extend(0, prompt); }) == ErrorCode::kContextOverflow);
  for (int i = 0; i < 2; ++i) {
    CHECK(!stepping({{0, logits}}));
    sampler.commit(0);
  }
  CHECK(stepping({{0, logits}}) == ErrorCode::kContextOverflow);  // the text is full
  sampler.remove(0);
  CHECK(code_of([&] { sampler.remove(0); }) == ErrorCode::kInvalidOption);
}

TEST_CASE("a step that fails leaves nothing to commit, nor does an empty slot") {
  const std::vector<float> row{0.0f, 3.0f, 1.0f, 0.0f};
  fd::BatchedSampler sampler(4, 16);
  const std::vector<fd::TokenId> prompt{0};
  const int a = sampler.add({}, prompt);
  const int b = sampler.add({}, prompt);
  const fd::SlotRow good[] = {{a, row}};
  sampler.step(good);
  const fd::SlotRow one_bad[] = {{a, row}, {b, std::span(row).first(3)}};
  CHECK_THROWS_AS(sampler.step(one_bad), fd::Error);
  sampler.commit(a);
  CHECK(sampler.position(a) == 1);
  sampler.step(good);
  sampler.remove(a);
  sampler.commit(a);
  sampler.commit(7);
  CHECK(sampler.size() == 1);
  CHECK_THROWS_AS(fd::BatchedSampler(4, 0), fd::Error);
  CHECK_THROWS_AS(fd::BatchedSampler(0, 4), fd::Error);
  CHECK_THROWS_AS(fd::BatchedSampler(4, 4, 0), fd::Error);
}
