#include <foredraft/drafter/shared_ngram_counts.hpp>

#include <sstream>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

std::uint32_t sum(const fd::SharedNgramCounts& shared, const Tokens& ngram) {
  return shared.read([&](const fd::NgramCounts& counts) {
    const auto* entry = counts.find(ngram);
    return entry == nullptr ? 0 : entry->sum;
  });
}

}  // namespace

TEST_CASE("a text that is learnt in pieces is learnt whole") {
  fd::SharedNgramCounts shared;
  Tokens text;
  for (int i = 0; i < 1400; ++i) text.push_back(i % 7);
  shared.learn(text, 0);
  CHECK(sum(shared, {0, 1, 2, 3}) == 200);
  shared.learn(text, 1399);
  CHECK(sum(shared, {2, 3, 4, 5}) == 201);
  CHECK(sum(shared, {0, 1, 2, 3}) == 200);
}

TEST_CASE("merged, saved and emptied") {
  fd::NgramCounts counts;
  counts.add(Tokens{1}, 2, 5);
  fd::SharedNgramCounts shared{counts};
  shared.merge(counts);
  CHECK(sum(shared, {1}) == 10);
  std::stringstream file;
  shared.save(file, {.n_vocab = 9});
  CHECK(sum(fd::SharedNgramCounts(fd::NgramCounts::load(file, {.n_vocab = 9})), {1}) == 10);
  shared.clear();
  CHECK(sum(shared, {1}) == 0);
}

TEST_CASE("threads may learn and read at once") {
  fd::SharedNgramCounts shared;
  Tokens text;
  for (int i = 0; i < 1000; ++i) text.push_back(i % 10);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        shared.learn(text, 0);
        sum(shared, {3, 4});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sum(shared, {3, 4}) == 4000);
}
