#include <foredraft/text_stream.hpp>

#include <random>
#include <string>
#include <vector>

#include <foredraft/core/index.hpp>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// All that is shown of `pieces`, and whether a stop string ended it.
fd::TextStream::Step shown(const std::vector<std::string>& pieces,
                           const std::vector<std::string>& stops) {
  fd::TextStream stream;
  fd::TextStream::Step all;
  for (const std::string& piece : pieces) {
    const auto step = stream.push(piece, stops);
    all.text += step.text;
    if (step.stopped) {
      CHECK(stream.held().empty());
      all.stopped = true;
      return all;
    }
  }
  all.text += stream.flush();
  CHECK(stream.held().empty());
  return all;
}

}  // namespace

TEST_CASE("text that may begin a stop string is held until it cannot") {
  const std::vector<std::string> stops{"</s>", "<|end|>"};
  fd::TextStream stream;
  CHECK(stream.push("a <", stops).text == "a ");
  CHECK(stream.held() == "<");
  CHECK(stream.push("/", stops).text.empty());
  CHECK(stream.push("p>", stops).text == "</p>");
  CHECK(stream.push("<|en", stops).text.empty());
  const auto step = stream.push("d|> and more", stops);
  CHECK(step.stopped);
  CHECK(step.text.empty());
  CHECK(stream.held().empty());
}

TEST_CASE("the earliest stop string ends the text, wherever it is split") {
  CHECK(shown({"one two three"}, {"three", "two"}).text == "one ");
  CHECK(shown({"aa", "ab"}, {"aab"}).text == "a");  // the match begins inside what was held
  CHECK(shown({"ab", "ab", "ac"}, {"abac"}).text == "ab");
  CHECK(shown({"x", "y"}, {"xyz"}).text == "xy");  // never completed: shown in the end
}

TEST_CASE("characters are shown whole") {
  fd::TextStream stream;
  const std::string euro = "\xE2\x82\xAC";
  CHECK(stream.push(euro.substr(0, 1), {}).text.empty());
  CHECK(stream.push(euro.substr(1, 1), {}).text.empty());
  CHECK(stream.push(euro.substr(2) + "!", {}).text == euro + "!");
  // A stop string may begin with a character whose first bytes are held anyway.
  const std::vector<std::string> stops{euro};
  CHECK(stream.push("5" + euro.substr(0, 2), stops).text == "5");
  CHECK(stream.push(euro.substr(2), stops).stopped);
}

TEST_CASE("any text in any pieces with any stops: as if it were looked at as a whole") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return fd::idx(random() % n); };
  const std::vector<std::string> alphabet{"a", "b", "c", "\xC3\xA9", "\xF0\x9F\x98\x80"};
  int stopped = 0;
  for (int run = 0; run < 3000; ++run) {
    std::string text;
    for (std::size_t i = below(14); i > 0; --i) text += alphabet[below(alphabet.size())];
    std::vector<std::string> stops(below(3));
    for (std::string& stop : stops) {
      for (std::size_t i = 1 + below(3); i > 0; --i) stop += alphabet[below(3)];
    }
    std::size_t longest = 0;
    for (const std::string& stop : stops) longest = std::max(longest, stop.size());

    fd::TextStream stream;
    std::string seen, read;
    bool stop_seen = false;
    for (std::size_t at = 0; at < text.size() && !stop_seen;) {
      const std::string piece = text.substr(at, 1 + below(4));
      at += piece.size();
      read += piece;
      const auto step = stream.push(piece, stops);
      seen += step.text;
      // What is shown ends between characters, and little is held.
      CHECK(fd::complete_utf8_prefix(seen) == seen.size());
      CHECK(stream.held().size() <= longest + 3);
      std::size_t match = std::string::npos;
      for (const std::string& stop : stops) match = std::min(match, read.find(stop));
      stop_seen = match != std::string::npos;
      REQUIRE(step.stopped == stop_seen);
      if (stop_seen) {
        CHECK(seen == read.substr(0, match));
        ++stopped;
      }
    }
    if (!stop_seen) CHECK(seen + stream.flush() == text);
  }
  CHECK(stopped > 300);
}
