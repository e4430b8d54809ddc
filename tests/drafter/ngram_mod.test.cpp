#include <foredraft/drafter/ngram_mod.hpp>

#include <sstream>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

std::shared_ptr<fd::NgramModTable> table_of(std::size_t entries = 1 << 14, int size_n = 3) {
  return std::make_shared<fd::NgramModTable>(size_n, entries);
}

/// Ends with the three tokens behind which 13 14 15 ... came.
const Tokens kText = joined({ascending(10, 20), {10, 11, 12}});

}  // namespace

TEST_CASE("what followed the last n tokens is proposed, token by token") {
  fd::NgramMod drafter(table_of());
  CHECK(proposed(drafter, kText, 4) == ascending(13, 4));
  CHECK(proposed(drafter, kText, 0).empty());
  CHECK(proposed(drafter, joined({kText, {99}}), 4).empty());
  CHECK(proposed(drafter, joined({kText, {99, 10, 11, 12}}), 4) == Tokens{99, 10, 11, 12});
}

TEST_CASE("texts of other sequences are known, and those that ended") {
  const auto table = table_of();
  fd::NgramMod first(table);
  fd::NgramMod second(table);
  proposed(first, ascending(10, 20), 0);
  CHECK(proposed(second, {7, 10, 11, 12}, 3) == ascending(13, 3));
  first.reset();
  CHECK(proposed(first, {8, 10, 11, 12}, 3) == ascending(13, 3));
  fd::NgramMod alone(table_of());
  CHECK(proposed(alone, {7, 10, 11, 12}, 3).empty());
}

TEST_CASE("a chain shorter than n_min is not proposed, whatever the depth") {
  fd::NgramMod drafter(table_of(), {.n_min = 6, .n_max = 9});
  const Tokens text = ascending(10, 20);  // ends with 29
  proposed(drafter, text, 0);
  drafter.reset();
  CHECK(proposed(drafter, {1, 10, 11, 12}, 2) == Tokens{13, 14});
  CHECK(proposed(drafter, {1, 10, 11, 12}, 40) == ascending(13, 9));
  drafter.reset();
  CHECK(proposed(drafter, {2, 21, 22, 23}, 8) == ascending(24, 6));
  drafter.reset();
  CHECK(proposed(drafter, {2, 22, 23, 24}, 2).empty());
}

TEST_CASE("a table that is too full is emptied before the prompt is entered, which stays in it") {
  const auto table = table_of(1 << 10);
  fd::NgramMod drafter(table);
  proposed(drafter, ascending(1000, 400), 0);
  CHECK(table->occupancy() > 0.25);
  drafter.reset();
  CHECK(proposed(drafter, kText, 4) == ascending(13, 4));
  CHECK(table->occupancy() < 0.05);
  drafter.reset();
  CHECK(proposed(drafter, {0, 1005, 1006, 1007}, 2).empty());
  CHECK(proposed(drafter, {0, 1005, 1006, 1007, 10, 11, 12}, 2) == ascending(13, 2));
}

TEST_CASE("a text during which the table fills up is not emptied") {
  const auto table = table_of(1 << 10);
  fd::NgramMod drafter(table);
  proposed(drafter, ascending(1000, 400), 0);
  proposed(drafter, ascending(1000, 410), 0);
  CHECK(table->epoch() == 0);
  CHECK(table->occupancy() > 0.25);
  int found = 0;
  for (fd::TokenId i = 1000; i < 1100; ++i) {
    found += table->find(table->hash(Tokens{i, i + 1, i + 2})) == i + 3;
  }
  CHECK(found > 50);  // the rest was overwritten
}

TEST_CASE("whoever shares a table that was emptied enters its text again") {
  const auto table = table_of(1 << 10);
  fd::NgramMod first(table);
  fd::NgramMod second(table);
  proposed(second, kText, 0);
  proposed(first, ascending(1000, 400), 0);
  first.reset();
  proposed(first, {1, 2, 3, 4}, 0);
  CHECK(table->epoch() == 1);
  CHECK(proposed(second, joined({kText, {10, 11, 12}}), 2) == Tokens{10, 11});
  CHECK(proposed(second, joined({kText, {10, 11, 12, 14, 15, 16}}), 2) == Tokens{17, 18});
}

TEST_CASE("drafts that fail in a row empty the table, one that does not ends the row") {
  const auto table = table_of();
  fd::NgramMod drafter(table, {.most_failures = 3});
  Tokens text = kText;
  const auto round = [&](const Tokens& next) {
    REQUIRE(proposed(drafter, text, 8).size() == 8);
    Tokens copy = text;
    commit(drafter, copy, next);
  };
  const auto known = [&] { return table->occupancy() > 0; };
  round({99});
  round({13, 99});      // one of eight
  round({13, 14, 99});  // a quarter
  CHECK(table->failures() == 0);
  for (int i = 0; i < 3; ++i) round({99});
  CHECK(known());  // a commit changes no index
  text.push_back(13);
  CHECK(proposed(drafter, text, 8).empty());
  CHECK(table->occupancy() == 1.0 / (1 << 14));  // the new token alone
}

TEST_CASE("a draft that was cut short and right so far is no failure") {
  const auto table = table_of();
  fd::NgramMod drafter(table);
  Tokens text = kText;
  proposed(drafter, text, 8);
  commit(drafter, text, {13});
  CHECK(table->failures() == 0);
  commit(drafter, text, {99});  // nobody asked
  CHECK(table->failures() == 0);
}

TEST_CASE("forgetting empties the table, and the present text is entered again") {
  const auto table = table_of();
  fd::NgramMod drafter(table);
  proposed(drafter, ascending(500, 20), 0);
  drafter.reset();
  proposed(drafter, kText, 0);
  drafter.forget();
  CHECK(proposed(drafter, kText, 2) == ascending(13, 2));
  drafter.reset();
  CHECK(proposed(drafter, {1, 500, 501, 502}, 2).empty());
}

TEST_CASE("cuts and snapshots: the text is entered as it is") {
  fd::NgramMod drafter(table_of());
  proposed(drafter, kText, 0);
  drafter.truncate(3);
  CHECK(proposed(drafter, joined({ascending(10, 3), {70, 71, 10, 11, 12}}), 2) == Tokens{70, 71});
  drafter.restore(drafter.snapshot());
  CHECK(proposed(drafter, {1, 2, 3, 4, 5, 1, 2, 3}, 2) == Tokens{4, 5});
}

TEST_CASE("a table goes into a file and comes back, with the present text in it") {
  const fd::VocabularyFingerprint vocabulary{.n_vocab = 1000};
  fd::NgramMod drafter(table_of());
  proposed(drafter, kText, 0);
  std::stringstream file;
  drafter.save(file, vocabulary);
  const std::string bytes = file.str();

  fd::NgramMod other(table_of());
  proposed(other, {1, 70, 71, 72, 73}, 0);
  std::istringstream in(bytes);
  other.load(in, vocabulary);
  CHECK(proposed(other, {1, 70, 71, 72, 73, 10, 11, 12}, 2) == ascending(13, 2));
  CHECK(proposed(other, {1, 70, 71, 72, 73, 10, 11, 12, 70, 71, 72}, 1) == Tokens{73});

  fd::NgramMod longer(table_of(1 << 8, 4));
  std::istringstream again(bytes);
  CHECK_THROWS_WITH(longer.load(again, vocabulary), Catch::Matchers::Contains("3-grams"));
}

TEST_CASE("n-gram mod: no token outside the target's vocabulary is proposed") {
  fd::NgramMod drafter(table_of());
  proposed(drafter, ascending(10, 20), 0);
  drafter.reset();
  CHECK(proposed(drafter, {1, 10, 11, 12}, 5, 15) == Tokens{13, 14});
}

TEST_CASE("n-gram mod: settings out of range are refused") {
  const auto make = [](fd::NgramMod::Settings settings) { fd::NgramMod(table_of(), settings); };
  CHECK_NOTHROW(make({}));
  CHECK_THROWS_AS(make({.n_min = -1}), fd::Error);
  CHECK_THROWS_AS(make({.n_min = 9, .n_max = 8}), fd::Error);
  CHECK_THROWS_AS(make({.n_max = 64}), fd::Error);
  CHECK_THROWS_AS(make({.most_occupancy = 0.0}), fd::Error);
  CHECK_THROWS_AS(make({.most_failures = 0}), fd::Error);
  CHECK_THROWS_AS(fd::NgramMod(nullptr), fd::Error);
}

TEST_CASE("a million tokens take the memory of the table") {
  const auto table = table_of(1 << 16);
  const std::size_t bytes = table->bytes();
  fd::NgramMod drafter(table);
  CHECK(proposed(drafter, joined({ascending(0, 1'000'000), {999'990, 999'991, 999'992}}), 2) ==
        Tokens{999'993, 999'994});
  CHECK(table->bytes() == bytes);
  CHECK(bytes == 4 << 16);
}
