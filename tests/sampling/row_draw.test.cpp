#include <foredraft/sampling/row_draw.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <foredraft/testing/law.hpp>
#include <foredraft/testing/law_by_definition.hpp>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
namespace ft = fd::testing;

namespace {

using Tokens = std::vector<fd::TokenId>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Takes the likeliest token and remembers the law that it was taken from.
struct Witness final : fd::Rng {
  bool bernoulli(fd::RngKey, double) override { return false; }
  std::size_t categorical(fd::RngKey asked, std::span<const fd::TokenId> ids,
                          std::span<const double> weights) override {
    key = asked;
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (std::size_t i = 0; i < ids.size(); ++i) p[fd::idx(ids[i])] = weights[i] / sum;
    return fd::idx(std::max_element(weights.begin(), weights.end()) - weights.begin());
  }
  fd::RngKey key{};
  std::vector<double> p = std::vector<double>(8);
};

double greatest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

const std::vector<float>& logits() {
  static const std::vector<float> row{0.5f, 2.0f, -1.0f, 1.9f, 0.1f, 1.2f, -3.0f, 0.7f};
  return row;
}

}  // namespace

TEST_CASE("a row is drawn from the law that its options define, with a mask and without") {
  const Tokens tokens{3, 1, 4, 1, 5, 1};
  fd::TokenRing text(16);
  for (const fd::TokenId token : tokens) text.push(token);
  fd::TokenSet allowed(8);
  std::vector<float> masked(8, kNever);
  for (const fd::TokenId token : {0, 3, 5, 6}) {
    allowed.add(token);
    masked[fd::idx(token)] = logits()[fd::idx(token)];
  }
  std::vector<fd::SamplingOptions> all = ft::law_transforms();
  const auto& stepwise = ft::law_stepwise_transforms();
  all.insert(all.end(), stepwise.begin(), stepwise.end());
  fd::RowDraw draw;
  for (const fd::SamplingOptions& options : all) {
    draw.reserve(options, 8, 16);
    for (const fd::TokenSet* mask :
         {static_cast<const fd::TokenSet*>(nullptr), &std::as_const(allowed)}) {
      CAPTURE(&options - all.data(), mask != nullptr);
      Witness witness;
      const fd::Mirostat unmoved;
      fd::Mirostat mirostat = unmoved;
      const fd::TokenId token = draw(options, {0, logits(), {}, mask}, text, mirostat, witness);
      const std::vector<double> p =
          ft::p_of(mask ? masked : logits(), options, tokens, unmoved.most_surprise(options));
      if (options.greedy()) {
        CHECK(p[fd::idx(token)] == 1.0);
        continue;
      }
      CHECK(greatest_difference(witness.p, p) <= 1e-12);
      CHECK(witness.key.position == 6);
      CHECK(p[fd::idx(token)] == *std::max_element(p.begin(), p.end()));
      fd::Mirostat expected = unmoved;
      if (options.mirostat != 0) expected.observe(options, witness.p[fd::idx(token)]);
      CHECK(mirostat == expected);
    }
  }
}

TEST_CASE("a mask that leaves nothing is an error, and the next row is drawn as ever") {
  fd::TokenRing text(4);
  text.push(0);
  const fd::SamplingOptions options{.temperature = 1.0f};
  std::vector<float> row = logits();
  row[2] = kNever;
  fd::TokenSet impossible(8);
  impossible.add(2);
  fd::RowDraw draw;
  fd::Mirostat mirostat;
  Witness witness;
  CHECK(code_of([&] { draw(options, {0, row, {}, &impossible}, text, mirostat, witness); }) ==
        fd::ErrorCode::kInvalidConstraint);
  CHECK(draw(options, {0, row}, text, mirostat, witness) == 1);
}
