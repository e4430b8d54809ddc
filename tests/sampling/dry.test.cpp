#include <foredraft/sampling/dry.hpp>

#include <map>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/exact_law.hpp"

namespace fd = foredraft;

namespace {

using Ids = std::vector<fd::TokenId>;

std::map<fd::TokenId, double> penalties(const fd::SamplingOptions& options, const Ids& text) {
  std::map<fd::TokenId, double> found;
  fd::Dry dry;
  dry.for_each_penalty(options, fd::Lookback({text}), [&](fd::TokenId token, double penalty) {
    CHECK_FALSE(found.contains(token));  // each once
    found[token] = penalty;
  });
  return found;
}

const fd::SamplingOptions kDry{
    .temperature = 1.0f, .dry_multiplier = 1.0f, .dry_base = 2.0f, .dry_allowed_length = 2};

}  // namespace

TEST_CASE("DRY penalises the token that would go on with a repetition, the more the longer it is") {
  CHECK(penalties(kDry, {}).empty());
  CHECK(penalties(kDry, {1, 2, 3, 1}).empty());  // one token is allowed
  CHECK(penalties(kDry, {1, 2, 3, 1, 2}) == std::map<fd::TokenId, double>{{3, 1.0}});
  CHECK(penalties(kDry, {0, 1, 2, 3, 0, 1, 2}) == std::map<fd::TokenId, double>{{3, 2.0}});
}

TEST_CASE("DRY takes the longest repetition of a token, and all tokens that went on") {
  // Behind "1 2" came 3, 4, and 3 again with "0" before it, as there is now.
  CHECK(penalties(kDry, {1, 2, 3, 1, 2, 4, 0, 1, 2, 3, 0, 1, 2}) ==
        std::map<fd::TokenId, double>{{3, 2.0}, {4, 1.0}});
  // A run repeats itself at every shift.
  CHECK(penalties(kDry, {5, 5, 5, 5}) == std::map<fd::TokenId, double>{{5, 2.0}});
}

TEST_CASE("no repetition reaches across a breaker, nor further than DRY looks back") {
  fd::SamplingOptions options = kDry;
  const Ids text{0, 1, 2, 3, 0, 1, 2};
  options.dry_breakers = {{0}};
  CHECK(penalties(options, text) == std::map<fd::TokenId, double>{{3, 1.0}});
  options.dry_breakers = {{0, 1}};
  CHECK(penalties(options, text).empty());
  options.dry_breakers = {{7}};
  CHECK(penalties(options, text) == std::map<fd::TokenId, double>{{3, 2.0}});
  options.dry_breakers = {};
  options.dry_penalty_last_n = 6;  // the first 0 is out of sight
  CHECK(penalties(options, text) == std::map<fd::TokenId, double>{{3, 1.0}});
  options.dry_penalty_last_n = 4;
  CHECK(penalties(options, text).empty());
}

TEST_CASE("one object goes by the breakers of each call") {
  const Ids text{0, 1, 2, 3, 0, 1, 2};
  fd::Dry dry;
  const auto penalty_of_3 = [&](const fd::SamplingOptions& options) {
    double found = 0;
    dry.for_each_penalty(options, fd::Lookback({text}),
                         [&](fd::TokenId, double penalty) { found = penalty; });
    return found;
  };
  for (int times = 0; times < 3; ++times) {
    fd::SamplingOptions options = kDry;
    options.dry_breakers = {{0}};  // a list made anew, where the last one may have been
    CHECK(penalty_of_3(options) == 1.0);
    options.dry_breakers = {{7}, {8, 0}};
    CHECK(penalty_of_3(options) == 2.0);
    CHECK(penalty_of_3(kDry) == 2.0);
  }
}

TEST_CASE("DRY equals its definition on random texts") {
  std::mt19937 random(7);
  for (int times = 0; times < 400; ++times) {
    Ids text(random() % 40);
    for (fd::TokenId& token : text) token = static_cast<fd::TokenId>(random() % 3);
    fd::SamplingOptions options = kDry;
    options.dry_base = 1.75f;
    options.dry_allowed_length = 1 + static_cast<int>(random() % 3);
    options.dry_penalty_last_n = random() % 2 == 0 ? -1 : 1 + static_cast<int>(random() % 40);
    if (random() % 2 == 0) options.dry_breakers = {{2, 0}, {1, 1, 2}};
    auto found = penalties(options, text);
    for (fd::TokenId token = 0; token < 3; ++token) {
      CHECK(static_cast<float>(10.0 - found[token]) ==
            static_cast<float>(law::undried(10.0, token, options, text)));
    }
  }
}

TEST_CASE("however long a repetition is, its penalty is finite") {
  fd::SamplingOptions options = kDry;
  options.dry_base = 1000.0f;
  const auto found = penalties(options, Ids(500, 1));
  CHECK(found.at(1) <= 1e30);
  CHECK(found.at(1) >= 1e29);
}
