// Logits and greedy text of real models against those of llama.cpp on the same files. Both engines
// quantize activations to int8 and sum in different orders, so they agree up to rounding, not to
// the bit.

#include <foredraft/models.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/load_reference.hpp"
#include "support/models.hpp"

namespace fd = foredraft;
using json = nlohmann::json;

namespace {

/// How far rounding may move log probabilities: of the best token on average, and of two tokens
/// against one another. And the share of positions that have the same best token.
struct Bounds {
  double mean = 0.03;
  double near_tie = 0.2;
  double same_best = 0.97;
  double lead = 0.2;  // of a best token that has to be ours, too
};

/// log-softmax of one row, in double.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - greatest - std::log(sum));
  return result;
}

/// Log probabilities after every token of a text.
template <typename M>
std::vector<std::vector<double>> rows_of(M& model, std::span<const fd::TokenId> tokens) {
  fd::LinearCache<fd::f16> cache{model.shape(), 1024};
  fd::Scores scores;
  std::vector<fd::Node> nodes;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    nodes.push_back({tokens[i], static_cast<int>(i) - 1});
  cache.stage(nodes);
  fd::Request<fd::LinearCache<fd::f16>> request{
      &cache, 0, static_cast<int>(nodes.size()), {fd::RowNeed::kLogits, {}}, &scores};
  model.forward(std::span(&request, 1));
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < request.count; ++i)
    rows.push_back(log_probabilities(std::as_const(scores).logits(i)));
  return rows;
}

struct Agreement {
  double lead = Bounds{}.lead;
  int positions = 0;
  int same_best = 0;
  double difference = 0;  // sum of |log p - golden log p| of the golden best token

  void add(const std::vector<double>& row, const json& top) {
    const auto golden = top.at(0).at(0).get<std::size_t>();
    const double gap = top.at(0).at(1).get<double>() - top.at(1).at(1).get<double>();
    const auto best = fd::idx(std::max_element(row.begin(), row.end()) - row.begin());
    ++positions;
    same_best += best == golden;
    difference += std::abs(row[golden] - top.at(0).at(1).get<double>());
    if (gap > lead) CHECK(best == golden);
  }
};

void compare(const std::string& name, const Bounds& bounds = {}) {
  const auto file = model_file(name);
  if (!file) return;
  fd::Cpu cpu;
  auto model = fd::load(cpu, *file);
  Agreement agreement{bounds.lead};
  std::ifstream lines(test_file("golden/data/" + name + ".logits.jsonl"));
  int texts = 0;
  for (std::string line; std::getline(lines, line); ++texts) {
    const json expected = json::parse(line);
    INFO(name << ": " << expected.at("text"));
    const auto tokens = model.tokenizer().encode(expected.at("text").get<std::string>(),
                                                 {.add_bos = true, .parse_special = true});
    REQUIRE(tokens == expected.at("tokens").get<std::vector<fd::TokenId>>());
    const auto rows = rows_of(model, tokens);
    for (std::size_t i = 0; i < rows.size(); ++i) agreement.add(rows[i], expected.at("top").at(i));

    const auto golden = expected.at("greedy").get<std::vector<fd::TokenId>>();
    fd::Decoder decoder{model, fd::LinearCache<fd::f16>{model.shape(), 1024}, fd::PromptLookup{},
                        fd::Greedy{}};
    const auto greedy =
        decoder.generate(tokens, {.max_tokens = static_cast<int>(golden.size()), .n_draft = 16})
            .tokens;
    const auto split = std::mismatch(greedy.begin(), greedy.end(), golden.begin(), golden.end());
    if (split.first == greedy.end()) continue;
    // They part ways: right only where both tokens are nearly as likely.
    std::vector<fd::TokenId> common = tokens;
    common.insert(common.end(), greedy.begin(), split.first);
    const auto row = rows_of(model, common).back();
    INFO("after " << split.first - greedy.begin() << " tokens: " << *split.first << " for "
                  << *split.second);
    CHECK(row[fd::idx(*split.first)] - row[fd::idx(*split.second)] < bounds.near_tie);
  }
  REQUIRE(texts > 0);
  INFO(agreement.same_best << " of " << agreement.positions
                           << " best tokens agree, mean difference "
                           << agreement.difference / agreement.positions);
  CHECK(agreement.same_best >= bounds.same_best * agreement.positions);
  CHECK(agreement.difference < bounds.mean * agreement.positions);
}

}  // namespace

// The bounds that were wanted are those of Bounds, a mean of 0.03 and a near tie of 0.2. Here they
// are loosened, because both sides round activations to 8 bits, each in its own way: on held-out
// texts ours are 0.037 away from the same weights in F32, and llama.cpp's 0.033. The golden numbers
// of this file are 0.0318 away from arithmetic without any rounding (our reference backend, which
// sums in double). One greedy text parts from llama.cpp's where the two best tokens are 0.275 apart.
TEST_CASE("smollm2-135m computes llama.cpp's logits") { compare("smollm2-135m", {0.032, 0.28}); }
TEST_CASE("qwen2.5-coder-0.5b computes llama.cpp's logits") { compare("qwen2.5-coder-0.5b"); }
TEST_CASE("qwen2.5-coder-1.5b computes llama.cpp's logits") { compare("qwen2.5-coder-1.5b"); }

// Loosened for the same reason. Unrounded arithmetic is 0.0459 away from the golden numbers, and has
// 84 of their 86 best tokens; ours is 0.0461 away from it. Ours and the golden numbers are 0.0498
// apart and agree in 83 best tokens; one of the other three has a lead of 0.245.
TEST_CASE("gemma-3-270m computes llama.cpp's logits") {
  compare("gemma-3-270m", {0.052, 0.25, 0.96, 0.25});
}

// Where the bounds of smollm2-135m and gemma-3-270m come from: how far unrounded arithmetic is from
// the golden numbers, and how far ours is from it.
namespace {
int compare_unrounded(const std::string& name) {
  Agreement golden;
  double rounding = 0;
  const auto file = model_file(name);
  if (!file) return 0;
  fd::Reference reference;
  fd::Cpu cpu;
  auto exact = fd::load(reference, *file);
  auto ours = fd::load(cpu, *file);
  std::ifstream lines(test_file("golden/data/" + name + ".logits.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json expected = json::parse(line);
    const auto tokens = expected.at("tokens").get<std::vector<fd::TokenId>>();
    const auto rows = rows_of(exact, tokens);
    const auto rounded = rows_of(ours, tokens);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const json& top = expected.at("top").at(i);
      golden.add(rows[i], top);
      const auto best = top.at(0).at(0).get<std::size_t>();
      rounding += std::abs(rows[i][best] - rounded[i][best]);
    }
  }
  WARN(name << ": of " << golden.positions << " best tokens " << golden.same_best
            << " are the golden ones, mean difference " << golden.difference / golden.positions
            << "; ours are " << rounding / golden.positions << " away");
  return golden.positions;
}
}  // namespace

TEST_CASE("smollm2-135m on the reference backend", "[.][reference]") {
  CHECK(compare_unrounded("smollm2-135m") == 140);
}
TEST_CASE("gemma-3-270m on the reference backend", "[.][reference]") {
  CHECK(compare_unrounded("gemma-3-270m") == 86);
}
