#include <foredraft/model/head_tokens.hpp>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

/// Ids 0 and 1 are pairs, 2 to 5 bytes, 6 a control token, 7 user-defined, 8 the end token, 9 and
/// 10 pairs, 11 unused.
fd::Vocabulary vocabulary() {
  using Kind = fd::TokenKind;
  fd::VocabularyData data;
  data.texts = {"ab", "cd", "a", "b", "c", "d", "<|x|>", "<tool>", "<end>", "bc", "da", "<pad>"};
  data.kinds.assign(12, Kind::kNormal);
  data.kinds[6] = data.kinds[8] = Kind::kControl;
  data.kinds[7] = Kind::kUserDefined;
  data.kinds[11] = Kind::kUnused;
  data.eos = 8;
  return fd::Vocabulary(std::move(data));
}

using Tokens = std::vector<fd::TokenId>;

fd::ErrorCode refused(int n, std::vector<std::int64_t> counts = {}) {
  try {
    fd::most_frequent_tokens(vocabulary(), n, counts);
  } catch (const fd::Error& error) {
    return error.code();
  }
  FAIL("accepted " << n);
  return {};
}

}  // namespace

TEST_CASE("without counts: special tokens, bytes, then lower ids, padding last") {
  const auto v = vocabulary();
  CHECK(fd::most_frequent_tokens(v, 4) == Tokens{2, 6, 7, 8});
  CHECK(fd::most_frequent_tokens(v, 8) == Tokens{0, 2, 3, 4, 5, 6, 7, 8});
  CHECK(fd::most_frequent_tokens(v, 11) == Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("counts go first, and equal counts by the tokenizer's order") {
  const auto v = vocabulary();
  const std::vector<std::int64_t> counts{5, 0, 0, 1, 0, 0, 0, 0, 0, 9};
  CHECK(fd::most_frequent_tokens(v, 4, counts) == Tokens{6, 7, 8, 9});
  CHECK(fd::most_frequent_tokens(v, 6, counts) == Tokens{0, 3, 6, 7, 8, 9});
  CHECK(fd::most_frequent_tokens(v, 7, counts) == Tokens{0, 2, 3, 6, 7, 8, 9});
  CHECK(fd::most_frequent_tokens(v, 4, std::vector<std::int64_t>(12, 3)) == Tokens{2, 6, 7, 8});
}

TEST_CASE("sizes that keep too little or everything are refused") {
  for (const int n : {-1, 0, 3, 12, 13, 1 << 30})
    CHECK(refused(n) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(5, std::vector<std::int64_t>(13, 1)) == fd::ErrorCode::kTokenOutOfRange);
}

TEST_CASE("logits find their places in the row itself") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t n_vocab = 1 + random() % 40;
    std::vector<float> expected(n_vocab, -std::numeric_limits<float>::infinity());
    std::vector<float> row(n_vocab, 7e7f);  // remains of another pass
    Tokens kept;
    for (std::size_t id = 0; id < n_vocab; ++id) {
      if (random() % 3 == 0) continue;
      row[kept.size()] = expected[id] = static_cast<float>(random() % 100);
      kept.push_back(static_cast<fd::TokenId>(id));
    }
    fd::spread_logits(kept, row);
    CHECK(row == expected);
  }
}
