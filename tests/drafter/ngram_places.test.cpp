#include <foredraft/drafter/ngram_places.hpp>

#include <random>

#include "support/catch.hpp"
#include "support/proposed.hpp"

namespace fd = foredraft;

namespace {

/// All earlier places of the n-gram at the end, newest first, by looking at every place.
std::vector<int> by_brute_force(const Tokens& tokens, int n) {
  std::vector<int> places;
  const auto size = static_cast<int>(tokens.size());
  for (int place = size - 2; place >= n - 1; --place) {
    if (std::equal(tokens.end() - n, tokens.end(), tokens.begin() + place + 1 - n)) {
      places.push_back(place);
    }
  }
  return places;
}

std::vector<int> found(const fd::NgramPlaces& places, const Tokens& tokens) {
  std::vector<int> all;
  for (int place = places.newest(tokens); place != fd::NgramPlaces::kNone;
       place = places.older(tokens, place)) {
    all.push_back(place);
  }
  return all;
}

}  // namespace

TEST_CASE("as if every place had been looked at, whatever is appended and cut off") {
  std::mt19937 random(4);
  for (const int n : {1, 2, 5}) {
    fd::NgramPlaces places(n);
    Tokens text{0};
    int wrong = 0;
    std::size_t most = 0;
    for (int i = 0; i < 600; ++i) {
      for (std::size_t k = 1 + random() % 8; k > 0; --k) {
        text.push_back(static_cast<fd::TokenId>(random() % 3));
      }
      if (random() % 20 == 0) {
        text.resize(1 + text.size() / 2 + random() % (text.size() / 2));
        places.truncate(static_cast<int>(text.size() - random() % 2));
        text.push_back(2);
      }
      places.index(text);
      const auto all = found(places, text);
      wrong += all != by_brute_force(text, n);
      most = std::max(most, all.size());
    }
    CHECK(wrong == 0);
    CHECK(most > 3);
  }
}

TEST_CASE("an n-gram at the very beginning is found, and a text of one n-gram has no other") {
  fd::NgramPlaces places(3);
  Tokens text{1, 2, 3};
  places.index(text);
  CHECK(found(places, text).empty());
  text.insert(text.end(), {1, 2, 3});
  places.index(text);
  CHECK(found(places, text) == std::vector<int>{2});
  places.index(Tokens{7});
  CHECK(found(places, Tokens{7, 8}).empty());
}

TEST_CASE("n-gram places: a million tokens take no more memory than is said") {
  fd::NgramPlaces places(3);
  Tokens text;
  for (fd::TokenId i = 0; i < 1'000'000; ++i) {
    text.push_back(i);
    if (i % 5000 == 0) places.index(text);
  }
  text.insert(text.end(), {5, 6, 7});
  places.index(text);
  CHECK(places.newest(text) == 7);
  CHECK(places.bytes() <= 16 * text.size());
}

TEST_CASE("a search among places of other n-grams ends") {
  // So many different n-grams hash alike only on purpose; a table of one bucket is the same.
  fd::NgramPlaces places(2);
  Tokens text;
  for (int i = 0; i < 900; ++i) text.insert(text.end(), {1});
  places.index(text);
  CHECK(places.newest(text) == 898);
  places.clear();
  CHECK(places.newest(text) == fd::NgramPlaces::kNone);
}
