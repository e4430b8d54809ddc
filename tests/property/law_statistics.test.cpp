// The text that the shipped source of randomness makes: samples, tested with a stated rate of false
// alarms.

#include "property/law_setup.hpp"
#include "property/mutants.hpp"
#include "support/catch.hpp"
#include "support/chi_square.hpp"

namespace fd = foredraft;
using law::Tokens;

namespace {

constexpr int kVocab = 8;
constexpr int kTexts = 4000;
constexpr int kLength = 5;
// One chance in a million that any of all these tests fails without a reason, shared out equally.
constexpr int kTests = 6 * (kLength - 1) + 2;
constexpr double kFalseAlarm = 1e-6 / kTests;

/// Smallest p-value of the G-tests of all pairs of neighbouring tokens, the first text token
/// included, over texts of different sequences. `kFalseAlarm` is its threshold.
double smallest_p_value(const fd::SamplingOptions& sampling, const TreeRule& rule,
                        std::uint64_t seed) {
  toy::Target target(kVocab, 1, 2.0, 4);
  const Tokens prompt{3};
  const auto exact = law::target_law(target, prompt, sampling, kLength);
  setup::Decoder decoder{target, toy::TokenCache{32, 16},
                         mutants::drawn({.draw_from = setup::some_q(kVocab)}), rule};
  std::vector<std::vector<double>> seen(kLength - 1, std::vector<double>(kVocab * kVocab));
  auto wanted = seen;
  const auto cell = [](const Tokens& tokens, std::size_t i) {
    return fd::idx(tokens[i] * kVocab + tokens[i + 1]);
  };
  for (const auto& [tokens, p] : exact) {
    for (std::size_t i = 0; i + 1 < kLength; ++i) wanted[i][cell(tokens, i)] += p * kTexts;
  }
  fd::Options options = setup::with(sampling, 3);
  options.max_tokens = kLength;
  options.seed = seed;
  for (std::uint32_t text = 0; text < kTexts; ++text) {
    options.sequence = text;
    const Tokens tokens = decoder.generate(prompt, options).tokens;
    for (std::size_t i = 0; i + 1 < kLength; ++i) seen[i][cell(tokens, i)] += 1;
  }
  double smallest = 1;
  for (std::size_t i = 0; i + 1 < kLength; ++i)
    smallest = std::min(smallest, statistics::g_test(seen[i], wanted[i]));
  return smallest;
}

}  // namespace

TEST_CASE(
    "texts of the shipped source have the law: G-test of pairs, one false alarm in a million") {
  const fd::SamplingOptions full{.temperature = 1.0f};
  const fd::SamplingOptions cut{.temperature = 1.3f, .top_k = 5, .top_p = 0.95f};
  CHECK(smallest_p_value(full, setup::kMatch, 1) > kFalseAlarm);
  CHECK(smallest_p_value(full, setup::kRejection, 2) > kFalseAlarm);
  CHECK(smallest_p_value(cut, setup::kMatch, 3) > kFalseAlarm);
  CHECK(smallest_p_value(cut, setup::kRejection, 4) > kFalseAlarm);
  CHECK(smallest_p_value(full, setup::kBlock, 6) > kFalseAlarm);
  CHECK(smallest_p_value(cut, setup::kBlock, 7) > kFalseAlarm);
  // The test has the power to see a mistake at this size.
  CHECK(smallest_p_value(
            full, mutants::rejection({.residual = mutants::Rejection::Residual::kNotSubtracted}),
            5) < kFalseAlarm);
}

TEST_CASE("texts of different seeds and sequences are independent") {
  toy::Target target(4, 1, 1.0, 4);
  setup::Decoder decoder{target, toy::TokenCache{32, 16}, TreeFunction{}, setup::kMatch};
  const auto first_token = [&](std::uint64_t seed, std::uint32_t sequence) {
    const fd::Options options{
        .max_tokens = 1, .sampling = {.temperature = 1.0f}, .seed = seed, .sequence = sequence};
    return fd::idx(decoder.generate(Tokens{2}, options).tokens[0]);
  };
  const std::vector<double> p = law::p_of(target.logits_after(Tokens{2}), {.temperature = 1.0f});
  std::vector<double> by_seed(16), by_sequence(16), wanted(16);
  const int pairs = 4000;
  for (std::size_t i = 0; i < 16; ++i) wanted[i] = pairs * p[i / 4] * p[i % 4];
  for (int i = 0; i < pairs; ++i) {
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const auto sequence = static_cast<std::uint32_t>(2 * i);
    by_seed[first_token(seed, 0) * 4 + first_token(seed + 1, 0)] += 1;
    by_sequence[first_token(7, sequence) * 4 + first_token(7, sequence + 1)] += 1;
  }
  CHECK(statistics::g_test(by_seed, wanted) > kFalseAlarm);
  CHECK(statistics::g_test(by_sequence, wanted) > kFalseAlarm);
}
