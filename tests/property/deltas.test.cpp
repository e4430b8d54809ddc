// Text reaches a listener in pieces that do not depend on how many tokens a round made: token by token,
// with what each of them shows, in whole characters, up to a stop string and never beyond.

#include <string>
#include <utility>
#include <vector>

#include "property/known_bugs_setup.hpp"
#include "support/catch.hpp"

using namespace known_bugs;

namespace {

using Delta = std::pair<fd::TokenId, std::string>;

/// A target whose tokens split characters and stop strings: bytes of "é", "€" and "END" among others.
struct Split {
  Split() {
    target.pieces = {"\xC3", "\xA9", "\xE2\x82", "\xAC",     "E",  "N",  "D",  "EN",
                     "x",    " y",   "\xE2",     "\x82\xAC", "ND", "zE", ". ", "\xC3\xA9"};
  }
  toy::Target target{16, 3, 1.5};
};

struct Heard {
  std::vector<Delta> deltas;
  fd::Result result;
};

Heard hear(toy::Target& target, fd::AnyDrafter<> drafter, const fd::Options& options) {
  Decoder decoder{target, toy::TokenCache{}, std::move(drafter), fd::SampleAndMatch{}};
  Heard heard;
  heard.result = decoder.generate(kPrompt, options, [&](const fd::Emitted& token) {
    heard.deltas.emplace_back(token.token, token.text);
  });
  return heard;
}

std::string text_of(const std::vector<Delta>& deltas) {
  std::string text;
  for (const Delta& delta : deltas) text += delta.second;
  return text;
}

std::vector<fd::Options> asked() {
  std::vector<fd::Options> list;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for (const auto& stop :
         std::vector<std::vector<std::string>>{{}, {"END"}, {"E. ", "\xC3\xA9x"}}) {
      list.push_back(
          {.max_tokens = 60, .sampling = {.temperature = 1.0f}, .seed = seed, .stop = stop});
    }
  }
  return list;
}

}  // namespace

TEST_CASE("a listener hears the same pieces, however many tokens a round makes") {
  Split split;
  int stopped = 0;
  for (fd::Options options : asked()) {
    options.n_draft = 0;
    const Heard plain = hear(split.target, fd::NoDraft{}, options);
    CHECK(text_of(plain.deltas) == plain.result.text);
    CHECK(plain.deltas.size() == plain.result.tokens.size());
    stopped += plain.result.finish_reason == FinishReason::kStop;
    const Tokens all = joined(kPrompt, plain.result.tokens);
    for (const int depth : {1, 2, 3, 5, 8, 16}) {
      options.n_draft = depth;
      const Heard drafted = hear(split.target, reciting(all), options);
      CAPTURE(options.seed, depth);
      CHECK(drafted.deltas == plain.deltas);
      CHECK(drafted.result.text == plain.result.text);
      CHECK(drafted.result.finish_reason == plain.result.finish_reason);
      if (plain.result.tokens.size() > 2) CHECK(drafted.result.stats.accepted > 0);
    }
  }
  CHECK(stopped > 3);
}

TEST_CASE("no piece ends inside a character, and none has a part of a stop string") {
  Split split;
  for (fd::Options options : asked()) {
    options.n_draft = 5;
    const Heard heard = hear(split.target, fd::PromptLookup{{.min_match = 1}}, options);
    std::size_t border = 0;
    for (const Delta& delta : heard.deltas) {
      border += delta.second.size();
      for (const std::string whole : {"\xC3\xA9", "\xE2\x82\xAC"}) {
        for (std::size_t inside = 1; inside < whole.size() && inside <= border; ++inside) {
          CHECK_FALSE(heard.result.text.substr(border - inside).starts_with(whole));
        }
      }
    }
    for (const std::string& stop : options.stop) {
      CHECK(heard.result.text.find(stop) == std::string::npos);
    }
  }
}

TEST_CASE("a listener may ask for one token at a time, in the middle of a round, too") {
  struct Enough {};
  Split split;
  for (fd::Options options : asked()) {
    options.n_draft = 0;
    const Heard plain = hear(split.target, fd::NoDraft{}, options);
    options.n_draft = 7;
    Decoder decoder{split.target, toy::TokenCache{}, reciting(joined(kPrompt, plain.result.tokens)),
                    fd::SampleAndMatch{}};
    decoder.prefill(kPrompt, options);
    std::vector<Delta> deltas;
    while (deltas.size() < plain.deltas.size()) {
      const std::size_t before = deltas.size();
      try {
        // What was made and not yet heard comes first; then a token of a further round.
        decoder.resume(options, [&](const fd::Emitted& token) {
          deltas.emplace_back(token.token, token.text);
          throw Enough{};
        });
        break;  // the text has ended
      } catch (const Enough&) {
      }
      REQUIRE(deltas.size() == before + 1);
    }
    // The limit of tokens is each call's own, so it is not reached: then the held text is not flushed.
    const bool limited = plain.result.finish_reason == FinishReason::kLength;
    if (limited) {
      deltas.pop_back();
      CHECK(deltas == std::vector<Delta>(plain.deltas.begin(), plain.deltas.end() - 1));
    } else {
      CHECK(deltas == plain.deltas);
    }
  }
}
