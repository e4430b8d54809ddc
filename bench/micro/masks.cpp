// What masks cost over a vocabulary of 152k tokens: the first one of a schema, and those of an answer, met for the
// first time and met again. Quantiles are of single masks.
//
//   bench.masks
//
// The result is one JSON object; bench/constrained/masks.py writes it into a file.
//
// The vocabulary is made up: words of letters with and without a space before them, as unequal in length as those of
// a tokenizer, all bytes, and tokens that cross parts of JSON.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <foredraft/constraint/grammar_constraint.hpp>
#include <foredraft/constraint/json_schema.hpp>
#include <foredraft/core/index.hpp>

#include "../support/summary.hpp"

namespace {

namespace fd = foredraft;
using Clock = std::chrono::steady_clock;

constexpr int kVocab = 151936;

std::vector<std::string> vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  constexpr std::string_view kMarks[] = {"\"",  "\",", "\":",  "{\"", "\"}", "}]",  "],\n",
                                         "\\n", ".\"", "\\\"", "'s",  "()",  ");\n"};
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
  std::mt19937 random(1);
  std::geometric_distribution<std::size_t> length(0.22);
  std::geometric_distribution<std::size_t> letter(0.11);
  std::unordered_set<std::string> seen(pieces.begin(), pieces.end());
  while (pieces.size() < kVocab) {
    std::string piece = random() % 2 == 0 ? " " : "";
    for (std::size_t n = 2 + std::min<std::size_t>(length(random), 14); n > 0; --n) {
      piece += kLetters[letter(random) % kLetters.size()];
    }
    if (random() % 25 == 0) piece += kMarks[random() % std::size(kMarks)];
    if (random() % 25 == 0) piece.insert(0, kMarks[random() % std::size(kMarks)]);
    if (random() % 12 == 0) piece += "\xC3\xA9";
    if (random() % 40 == 0) piece += "\xE4\xB8";  // a part of a character
    if (seen.insert(piece).second) pieces.push_back(std::move(piece));
  }
  return pieces;
}

double micros(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}
nlohmann::ordered_json quantiles(const std::vector<double>& values) {
  return {{"p50", bench::median(values)}, {"p99", bench::quantile(values, 0.99)}};
}

/// A random answer, in words rather than in single bytes.
std::vector<double> masks_of_an_answer(const fd::GrammarConstraint& constraint, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> times;
  auto state = constraint.start();
  while (times.size() < 300 && !constraint.finished(state)) {
    const auto begin = Clock::now();
    const auto mask = constraint.mask(state);
    times.push_back(micros(begin));
    std::vector<fd::TokenId> allowed;
    mask->for_each([&](fd::TokenId token) { allowed.push_back(token); });
    state = *constraint.next(state, allowed[random() % allowed.size()]);
  }
  return times;
}

struct Schema {
  const char* name;
  const char* text;
};
constexpr Schema kSchemas[] = {
    {"any JSON", "{}"},
    {"strings",
     R"({"properties":{"title":{"type":"string"},"author":{"type":"string"}},"required":["title","author"]})"},
    {"bounded strings",
     R"({"properties":{"title":{"type":"string","maxLength":200},"tags":{"type":"array","maxItems":20,)"
     R"("items":{"type":"string","maxLength":40}}},"required":["title","tags"]})"},
    {"pattern",
     R"({"properties":{"id":{"type":"string","pattern":"^[a-z]{2,40}-[0-9]{3}$"}},"required":["id"]})"},
    {"other names",
     R"({"properties":{"HOME":{"type":"string"}},"additionalProperties":{"type":"string","maxLength":30}})"},
};

}  // namespace

int main() {
  const std::vector<std::string> pieces = vocabulary();
  auto begin = Clock::now();
  const auto trie = std::make_shared<const fd::PieceTrie>(
      kVocab, [&](fd::TokenId token) { return pieces[fd::idx(token)]; });
  nlohmann::ordered_json out{{"tokens", kVocab}, {"tree_milliseconds", micros(begin) / 1000}};
  for (const Schema& schema : kSchemas) {
    begin = Clock::now();
    const fd::GrammarConstraint constraint(fd::json_schema_grammar(schema.text), trie);
    const double first = micros(begin) / 1000;
    std::vector<double> fresh, again;
    for (unsigned seed = 0; seed < 10; ++seed) {
      for (std::vector<double>* times : {&fresh, &again}) {
        const auto of_one = masks_of_an_answer(constraint, seed);
        times->insert(times->end(), of_one.begin(), of_one.end());
      }
    }
    out["schemas"].push_back({{"name", schema.name},
                              {"masks", fresh.size()},
                              {"first_milliseconds", first},
                              {"met_first_microseconds", quantiles(fresh)},
                              {"again_microseconds", quantiles(again)}});
  }
  std::cout << out.dump(1) << '\n';
}
