#include <foredraft/drafter/lookahead_pool.hpp>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_memory.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {

using Tokens = std::vector<fd::TokenId>;

Tokens found(fd::LookaheadPool& pool, fd::TokenId token) {
  const auto tokens = pool.find(token);
  return {tokens.begin(), tokens.end()};
}

constexpr fd::VocabularyFingerprint kVocabulary{.n_vocab = 1000, .used = 1000, .pieces = 3};

std::string saved(const fd::LookaheadPool& pool) {
  std::ostringstream out;
  pool.save(out, kVocabulary);
  return out.str();
}

void load(fd::LookaheadPool& pool, const std::string& file,
          const fd::VocabularyFingerprint& vocabulary = kVocabulary) {
  std::istringstream in(file);
  pool.load(in, vocabulary);
}

/// A file with a payload of these numbers: the length, the number of keys, and all that follows it.
std::string file_of(std::uint32_t length, std::uint64_t keys,
                    std::initializer_list<std::int32_t> numbers) {
  fd::PayloadWriter payload;
  payload.put(length);
  payload.put(keys);
  for (const std::int32_t number : numbers) payload.put(number);
  std::ostringstream out;
  fd::write_table(out, {fd::TableKind::kLookahead, kVocabulary, payload.bytes()});
  return out.str();
}

}  // namespace

TEST_CASE("continuations come newest first, each once") {
  fd::LookaheadPool pool(16, 3, 2);
  CHECK(found(pool, 7).empty());
  pool.insert(7, Tokens{1, 2});
  pool.insert(7, Tokens{1, 3});
  CHECK(found(pool, 7) == Tokens{1, 3, 1, 2});
  pool.insert(7, Tokens{1, 2});
  CHECK(found(pool, 7) == Tokens{1, 2, 1, 3});
  pool.insert(7, Tokens{4, 5});
  pool.insert(7, Tokens{1, 2});
  CHECK(found(pool, 7) == Tokens{1, 2, 4, 5, 1, 3});
  pool.insert(7, Tokens{6, 6});
  CHECK(found(pool, 7) == Tokens{6, 6, 1, 2, 4, 5});  // the oldest went
  CHECK(found(pool, 9).empty());
  CHECK(pool.size() == 3);
  pool.forget();
  CHECK(pool.size() == 0);
  CHECK(found(pool, 7).empty());
}

TEST_CASE("token 0 is a token like any other") {
  fd::LookaheadPool pool(8, 2, 1);
  CHECK(found(pool, 0).empty());
  pool.insert(5, Tokens{1});
  CHECK(found(pool, 0).empty());
  pool.insert(0, Tokens{2});
  CHECK(found(pool, 0) == Tokens{2});
  CHECK(found(pool, 5) == Tokens{1});
}

TEST_CASE("the token that was used longest ago makes room") {
  fd::LookaheadPool pool(8, 2, 1);
  for (fd::TokenId token = 0; token < 8; ++token) pool.insert(token, Tokens{token + 100});
  CHECK(found(pool, 0) == Tokens{100});  // used again, and now 1 is the oldest
  pool.insert(2, Tokens{200});
  pool.insert(50, Tokens{150});
  CHECK(found(pool, 1).empty());
  CHECK(found(pool, 50) == Tokens{150});  // with nothing of 1's
  CHECK(found(pool, 2) == Tokens{200, 102});
  pool.insert(51, Tokens{151});
  CHECK(found(pool, 3).empty());
  CHECK(found(pool, 0) == Tokens{100});
}

TEST_CASE("memory is taken once, whatever is inserted") {
  fd::LookaheadPool pool(64, 4, 3);
  const std::size_t bytes = pool.bytes();
  CHECK(bytes == 64 * (16 + 4 * 4 * 3));
  std::mt19937 random(1);
  Tokens tokens(3);
  const std::int64_t before = memory::allocations;
  for (int i = 0; i < 100000; ++i) {
    for (fd::TokenId& token : tokens) token = static_cast<fd::TokenId>(random() % 3);
    pool.insert(static_cast<fd::TokenId>(random() % 1000), tokens);
  }
  CHECK(memory::allocations == before);
  CHECK(pool.bytes() == bytes);
  CHECK(pool.size() <= 64 * 4);
  CHECK(pool.size() > 64);
}

TEST_CASE("a saved pool comes back, and goes on as it would have") {
  fd::LookaheadPool pool(8, 3, 2);
  for (fd::TokenId token = 0; token < 8; ++token) {
    for (fd::TokenId i = 0; i < 3; ++i) pool.insert(token, Tokens{token, i});
  }
  CHECK(found(pool, 0) == Tokens{0, 2, 0, 1, 0, 0});  // used last
  fd::LookaheadPool other(8, 3, 2);
  other.insert(99, Tokens{9, 9});
  load(other, saved(pool));
  CHECK(saved(other) == saved(pool));
  CHECK(found(other, 99).empty());
  for (fd::LookaheadPool* each : {&pool, &other}) {
    each->insert(500, Tokens{1, 2});
    CHECK(found(*each, 1).empty());  // used longest ago
    CHECK(found(*each, 0).size() == 6);
    CHECK(found(*each, 7) == Tokens{7, 2, 7, 1, 7, 0});
    each->insert(501, Tokens{3, 4});
    CHECK(found(*each, 2).empty());
    CHECK(found(*each, 500) == Tokens{1, 2});
  }
  // One of other sizes takes what it has room for, the newest of all.
  fd::LookaheadPool small(8, 1, 2);
  load(small, saved(pool));
  CHECK(small.size() == 8);
  CHECK(found(small, 500) == Tokens{1, 2});
  CHECK(found(small, 7) == Tokens{7, 2});
}

TEST_CASE("a pool refuses damaged files, and knows what it knew") {
  fd::LookaheadPool pool(8, 3, 2);
  pool.insert(5, Tokens{6, 7});
  const std::string before = saved(pool);
  const auto code = [&](const std::string& file,
                        const fd::VocabularyFingerprint& vocabulary = kVocabulary) {
    return code_of([&] { load(pool, file, vocabulary); });
  };
  CHECK(code(file_of(2, 1, {5, 1, 6, 7})) == std::nullopt);
  CHECK(saved(pool) == before);
  using fd::ErrorCode;
  for (const std::uint32_t length : {1u, 3u, ~0u}) {
    CHECK(code(file_of(length, 1, {5, 1, 6, 7, 8})) == ErrorCode::kInvalidOption);
    CHECK(saved(pool) == before);
  }
  for (const std::string& file :
       {file_of(2, 1, {1000, 1, 6, 7}), file_of(2, 1, {-1, 1, 6, 7}),
        file_of(2, 1, {5, 1, 6, 1000}), file_of(2, 1, {5, 0}), file_of(2, 1, {5, 2000, 6, 7}),
        file_of(2, 1, {5, 2, 6, 7}), file_of(2, 2, {5, 1, 6, 7}), file_of(2, ~0ull, {5, 1, 6, 7}),
        file_of(2, 1, {5, 1, 6, 7, 8}), file_of(2, 2, {5, 1, 6, 7, 5, 1, 7, 6}),
        file_of(2, 1, {5, 2, 6, 7, 6, 7}), before.substr(0, 70)}) {
    CHECK(code(file) == ErrorCode::kCorruptFile);
    CHECK(saved(pool) == before);
  }
  CHECK(code(before, {.n_vocab = 999}) == ErrorCode::kVocabularyMismatch);
  CHECK(saved(pool) == before);
}
