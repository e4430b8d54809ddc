#include <foredraft/drafter/ngram_counts.hpp>

#include <map>
#include <random>
#include <sstream>

#include "support/catch.hpp"
#include "support/proposed.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;
using fd::NgramCounts;

namespace {

const fd::VocabularyFingerprint kVocabulary{.n_vocab = 1000};

std::uint32_t count(const NgramCounts& counts, const Tokens& ngram, fd::TokenId token) {
  const auto* entry = counts.find(ngram);
  return entry == nullptr ? 0 : entry->count_of(token);
}
std::uint32_t sum(const NgramCounts& counts, const Tokens& ngram) {
  const auto* entry = counts.find(ngram);
  return entry == nullptr ? 0 : entry->sum;
}

std::string saved(const NgramCounts& counts) {
  std::ostringstream out;
  counts.save(out, kVocabulary);
  return out.str();
}
NgramCounts loaded(const std::string& file,
                   const fd::VocabularyFingerprint& vocabulary = kVocabulary) {
  std::istringstream in(file);
  return NgramCounts::load(in, vocabulary);
}

struct SavedEntry {
  Tokens ngram{1, 2, -1, -1};
  std::uint32_t sum = 3;
  std::vector<std::pair<fd::TokenId, std::uint32_t>> followers{{5, 2}, {6, 1}};
};
/// A file of `size` entries by its own account.
std::string file_with(const std::vector<SavedEntry>& entries, std::uint64_t size,
                      std::uint32_t most = 256) {
  fd::PayloadWriter payload;
  payload.put(most);
  payload.put(size);
  for (const SavedEntry& entry : entries) {
    for (const fd::TokenId token : entry.ngram) payload.put(token);
    payload.put(entry.sum);
    payload.put(static_cast<std::uint8_t>(entry.followers.size()));
    for (const auto& [token, n] : entry.followers) {
      payload.put(token);
      payload.put(n);
    }
  }
  std::ostringstream out;
  fd::write_table(out, {fd::TableKind::kNgramCounts, kVocabulary, payload.bytes()});
  return out.str();
}

}  // namespace

TEST_CASE("all n-grams of one to four tokens are counted with what follows") {
  NgramCounts counts;
  counts.learn(Tokens{1, 2, 3, 4, 5}, 0);
  CHECK(counts.size() == 4 + 3 + 2 + 1);
  CHECK(count(counts, {1}, 2) == 1);
  CHECK(count(counts, {3, 4}, 5) == 1);
  CHECK(count(counts, {1, 2, 3, 4}, 5) == 1);
  CHECK(count(counts, {2, 3}, 5) == 0);
  CHECK(counts.find(Tokens{5}) == nullptr);
  CHECK(counts.find(Tokens{1, 2, 3, 5}) == nullptr);
  NgramCounts pairs;
  pairs.learn(Tokens{1, 2, 3, 1, 2, 4}, 0, 2, 2);
  CHECK(pairs.size() == 3);
  CHECK(sum(pairs, {1, 2}) == 2);
}

TEST_CASE("counts do not depend on the pieces in which a text comes") {
  std::mt19937 random(6);
  Tokens text;
  for (int i = 0; i < 200; ++i) text.push_back(i % 7);
  NgramCounts whole;
  whole.learn(text, 0);
  REQUIRE(sum(whole, {0, 1, 2, 3}) == 28);
  for (const std::size_t piece : {1, 2, 3, 5, 64}) {
    NgramCounts counts;
    for (std::size_t from = 0; from < text.size(); from += piece) {
      counts.learn(std::span(text).first(std::min(text.size(), from + piece)), from);
    }
    CHECK(saved(counts) == saved(whole));
  }
}

TEST_CASE("as a map of maps counts, while there is room") {
  std::mt19937 random(7);
  std::map<Tokens, std::map<fd::TokenId, std::uint32_t>> truth;
  NgramCounts counts;
  Tokens text;
  for (int i = 0; i < 3000; ++i) {
    text.push_back(static_cast<fd::TokenId>(random() % 5));
    for (std::size_t n = 1; n <= 4 && n < text.size(); ++n) {
      ++truth[Tokens(text.end() - 1 - static_cast<std::ptrdiff_t>(n), text.end() - 1)][text.back()];
    }
  }
  counts.learn(text, 0);
  CHECK(counts.size() == truth.size());
  int wrong = 0;
  for (const auto& [ngram, followers] : truth) {
    std::uint32_t all = 0;
    for (const auto& [token, n] : followers) {
      wrong += count(counts, ngram, token) != n;
      all += n;
    }
    wrong += sum(counts, ngram) != all;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a sixth token takes the place of the rarest, the most frequent one stays") {
  NgramCounts counts;
  for (int round = 0; round < 50; ++round) {
    counts.add(Tokens{1}, 2);
    counts.add(Tokens{1}, 100 + round);
  }
  CHECK(count(counts, {1}, 2) == 50);
  CHECK(sum(counts, {1}) == 100);
  CHECK(count(counts, {1}, 149) == 1);
}

TEST_CASE("counts are halved before they overflow") {
  NgramCounts counts;
  for (int i = 0; i < 10; ++i) counts.add(Tokens{1}, 2, NgramCounts::kMostCount);
  counts.add(Tokens{1}, 3, 0xffffffffu);
  CHECK(sum(counts, {1}) <= NgramCounts::kMostCount);
  CHECK(count(counts, {1}, 2) + count(counts, {1}, 3) <= sum(counts, {1}));
  CHECK(count(counts, {1}, 2) > 0);
}

TEST_CASE("a million tokens take no more memory than the table may, and frequent n-grams stay") {
  NgramCounts counts(1 << 12);
  Tokens text;
  for (fd::TokenId i = 0; i < 1'000'000; ++i) text.push_back(i % 100 < 6 ? i % 100 : 1000 + i);
  counts.learn(text, 0);
  CHECK(counts.size() <= 1 << 12);
  CHECK(counts.bytes() == 64 << 12);
  CHECK(count(counts, {0, 1, 2, 3}, 4) > 9900);
  counts.clear();
  CHECK(counts.bytes() == 0);
  CHECK(counts.find(Tokens{1}) == nullptr);
  counts.add(Tokens{1}, 2);
  CHECK(counts.bytes() == 64 * 256);
}

TEST_CASE("merged counts are sums") {
  NgramCounts first;
  NgramCounts second;
  first.learn(Tokens{1, 2, 3, 1, 2, 4}, 0);
  second.learn(Tokens{1, 2, 3}, 0);
  for (fd::TokenId token = 10; token < 20; ++token) second.add(Tokens{1, 2}, token);
  first.merge(second);
  CHECK(count(first, {1}, 2) == 3);
  CHECK(sum(first, {1, 2}) == 13);
}

TEST_CASE("n-gram counts: a saved table comes back") {
  NgramCounts counts(1 << 10);
  std::mt19937 random(8);
  Tokens text;
  for (int i = 0; i < 500; ++i) text.push_back(static_cast<fd::TokenId>(random() % 9));
  counts.learn(text, 0);
  const NgramCounts again = loaded(saved(counts));
  CHECK(again.max_entries() == counts.max_entries());
  CHECK(again.size() == counts.size());
  CHECK(sum(again, {text[0], text[1]}) == sum(counts, {text[0], text[1]}));
  CHECK(loaded(saved(NgramCounts())).size() == 0);
}

TEST_CASE("n-gram counts: files that lie are refused") {
  const auto refused = [](const std::string& file) {
    return code_of([&] { loaded(file); }) == fd::ErrorCode::kCorruptFile;
  };
  const SavedEntry good;
  const auto with = [&](auto&& change) {
    SavedEntry entry = good;
    change(entry);
    return file_with({entry}, 1);
  };
  CHECK_FALSE(refused(file_with({good}, 1)));
  CHECK(sum(loaded(file_with({good}, 1)), {1, 2}) == 3);
  CHECK(refused(file_with({good}, 2)));
  CHECK(refused(file_with({good}, 0)));
  CHECK(refused(file_with({good}, std::uint64_t{1} << 60)));
  for (const std::uint32_t most : {0u, 128u, 300u, 1u << 27, 0x80000000u}) {
    CHECK(refused(file_with({good}, 1, most)));
  }
  CHECK(refused(with([](SavedEntry& e) { e.ngram = {-1, -1, -1, -1}; })));
  CHECK(refused(with([](SavedEntry& e) { e.ngram = {1, -1, 2, -1}; })));
  CHECK(refused(with([](SavedEntry& e) { e.ngram = {1, 1000, -1, -1}; })));
  CHECK(refused(with([](SavedEntry& e) { e.ngram = {1, -2, -1, -1}; })));
  CHECK(refused(with([](SavedEntry& e) { e.sum = 0; })));
  CHECK(refused(with([](SavedEntry& e) { e.sum = 0xffffffffu; })));
  CHECK(refused(with([](SavedEntry& e) { e.sum = 2; })));  // less than its counts
  CHECK(refused(with([](SavedEntry& e) { e.followers.clear(); })));
  CHECK(refused(with([](SavedEntry& e) { e.followers[0].second = 0; })));
  CHECK(refused(with([](SavedEntry& e) { e.followers[0].second = 0xfffffffeu; })));
  CHECK(refused(with([](SavedEntry& e) { e.followers[0].first = 1000; })));
  CHECK(refused(with([](SavedEntry& e) { e.followers[0].first = -1; })));
  CHECK(refused(with([](SavedEntry& e) { e.followers[1].first = 5; })));  // one twice
  CHECK(refused(with([](SavedEntry& e) {
    e.sum = 100;
    e.followers.assign(6, {7, 1});
  })));
  const std::string file = file_with({good}, 1);
  for (std::size_t size = 0; size < file.size(); ++size) CHECK(refused(file.substr(0, size)));
  CHECK(code_of([&] { loaded(file, {.n_vocab = 999}); }) == fd::ErrorCode::kVocabularyMismatch);
}

TEST_CASE("sizes out of range are refused") {
  for (const std::size_t most :
       {std::size_t{0}, std::size_t{128}, std::size_t{1000}, std::size_t{1} << 27}) {
    CHECK(code_of([&] { NgramCounts{most}; }) == fd::ErrorCode::kInvalidOption);
  }
}
