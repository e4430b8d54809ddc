#include <foredraft/drafter/ngram_mod_table.hpp>

#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/proposed.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

const fd::VocabularyFingerprint kVocabulary{.n_vocab = 1000};

std::string saved(const fd::NgramModTable& table) {
  std::ostringstream out;
  table.save(out, kVocabulary);
  return out.str();
}

/// A file with these numbers of 32 bits as its payload.
std::string file_with(const std::vector<std::uint32_t>& numbers) {
  fd::PayloadWriter payload;
  for (const std::uint32_t number : numbers) payload.put(number);
  std::ostringstream out;
  fd::write_table(out, {fd::TableKind::kNgramMod, kVocabulary, payload.bytes()});
  return out.str();
}

std::optional<fd::ErrorCode> error_of(const std::string& file,
                                      const fd::VocabularyFingerprint& vocabulary = kVocabulary) {
  return code_of([&] {
    std::istringstream in(file);
    fd::NgramModTable::load(in, vocabulary);
  });
}

}  // namespace

TEST_CASE("the token that followed the last time is found, and none behind another n-gram") {
  fd::NgramModTable table(3, 1 << 10);
  const Tokens ngram{1, 2, 3};
  CHECK_FALSE(table.find(table.hash(ngram)));
  table.put(table.hash(ngram), 7);
  CHECK(table.find(table.hash(ngram)) == 7);
  table.put(table.hash(ngram), 0);
  CHECK(table.find(table.hash(ngram)) == 0);
  CHECK_FALSE(table.find(table.hash(Tokens{3, 2, 1})));
  table.put(table.hash(ngram), fd::NgramModTable::kTokens - 1);
  CHECK(table.find(table.hash(ngram)) == fd::NgramModTable::kTokens - 1);
  table.put(table.hash(ngram), fd::NgramModTable::kTokens);  // too great to be stored
  CHECK(table.find(table.hash(ngram)) == fd::NgramModTable::kTokens - 1);
}

TEST_CASE("a full table takes few n-grams for others") {
  fd::NgramModTable table(2, 1 << 12);
  for (fd::TokenId i = 0; i < 60000; ++i) table.put(table.hash(Tokens{i, i + 1}), 5);
  CHECK(table.occupancy() > 0.99);
  CHECK(table.occupancy() <= 1.0);
  int found = 0;
  for (fd::TokenId i = 0; i < 20000; ++i)
    found += table.find(table.hash(Tokens{i, 1 << 18})).has_value();
  CHECK(found < 40);  // 5 by chance
}

TEST_CASE("occupancy counts entries, not writes") {
  fd::NgramModTable table(2, 1 << 10);
  for (int i = 0; i < 100; ++i) table.put(table.hash(Tokens{1, 2}), i);
  CHECK(table.occupancy() == 1.0 / 1024);
  table.clear();
  CHECK(table.occupancy() == 0.0);
  CHECK_FALSE(table.find(table.hash(Tokens{1, 2})));
  CHECK(table.epoch() == 0);
  table.renew();
  CHECK(table.epoch() == 1);
}

TEST_CASE("threads may read, write and empty one table") {
  fd::NgramModTable table(2, 1 << 8);
  std::vector<std::thread> threads;
  std::atomic<int> strange{0};
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(static_cast<unsigned>(id));
      for (int i = 0; i < 20000; ++i) {
        const Tokens ngram{static_cast<fd::TokenId>(random() % 50), 1};
        table.put(table.hash(ngram), ngram[0]);
        const auto token = table.find(table.hash(ngram));
        if (token && (*token < 0 || *token >= 50)) ++strange;
        if (i % 5000 == 0) table.renew();
        table.note(i % 2 == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(strange == 0);
  CHECK(table.epoch() == 16);
}

TEST_CASE("n-gram mod table: a saved table comes back") {
  fd::NgramModTable table(3, 1 << 10);
  for (fd::TokenId i = 0; i < 300; ++i) table.put(table.hash(Tokens{i, 1, 2}), 999 - i);
  std::istringstream in(saved(table));
  const auto loaded = fd::NgramModTable::load(in, kVocabulary);
  CHECK(loaded->size_n() == 3);
  CHECK(loaded->entries() == 1 << 10);
  CHECK(loaded->occupancy() == table.occupancy());
  CHECK(saved(*loaded) == saved(table));
  CHECK(loaded->find(loaded->hash(Tokens{299, 1, 2})) == 999 - 299);
}

TEST_CASE("n-gram mod table: files that lie are refused") {
  using fd::ErrorCode;
  CHECK_FALSE(error_of(file_with({3, 16, 2, 0, 0, 5, 15, 999})));
  CHECK(error_of(file_with({0, 16, 0, 0})) == ErrorCode::kCorruptFile);
  CHECK(error_of(file_with({1025, 16, 0, 0})) == ErrorCode::kCorruptFile);
  for (const std::uint32_t entries : {0u, 8u, 24u, 1u << 28, 0xffffffffu}) {
    CHECK(error_of(file_with({3, entries, 0, 0})) == ErrorCode::kCorruptFile);
  }
  CHECK(error_of(file_with({3, 16, 1, 0})) == ErrorCode::kCorruptFile);  // none there
  CHECK(error_of(file_with({3, 16, 1, 0x20000000, 0, 5})) == ErrorCode::kCorruptFile);  // 2^61
  CHECK(error_of(file_with({3, 16, 1, 0, 16, 5})) == ErrorCode::kCorruptFile);  // no such place
  CHECK(error_of(file_with({3, 16, 2, 0, 4, 5, 4, 6})) == ErrorCode::kCorruptFile);  // one twice
  CHECK(error_of(file_with({3, 16, 1, 0, 4, 1000})) == ErrorCode::kCorruptFile);  // no such token
  CHECK(error_of(file_with({3, 16, 1, 0, 4, 0xffffffff})) == ErrorCode::kCorruptFile);
  CHECK(error_of(file_with({3, 16, 1, 0, 4, 5, 0})) == ErrorCode::kCorruptFile);  // and more
  CHECK(error_of(file_with({3, 16, 0, 0}), {.n_vocab = 999}) == ErrorCode::kVocabularyMismatch);
  const std::string file = file_with({3, 16, 2, 0, 0, 5, 15, 999});
  for (std::size_t size = 0; size < file.size(); ++size) {
    CHECK(error_of(file.substr(0, size)) == ErrorCode::kCorruptFile);
  }
}

TEST_CASE("sizes out of range are refused, and memory is that of the entries") {
  CHECK(code_of([] { fd::NgramModTable(0, 1 << 10); }) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of([] { fd::NgramModTable(3, 1000); }) == fd::ErrorCode::kInvalidOption);
  CHECK(code_of([] { fd::NgramModTable(3, 8); }) == fd::ErrorCode::kInvalidOption);
  CHECK(fd::NgramModTable(3, 1 << 10).bytes() == 4 << 10);
}
