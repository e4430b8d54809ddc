#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/io/gguf.hpp>

#include "support/catch.hpp"

/// A small random model, in whose file also stand a text and the logits that transformers computes
/// for it (tests/golden/golden_file.py).
struct RandomGolden {
  explicit RandomGolden(const std::filesystem::path& path)
      : family(path.stem().string()), file(foredraft::Gguf::open(path)) {
    const auto ids = file.get_ints("golden.tokens").value();
    const auto floats = file.get_floats("golden.logits").value();
    tokens.assign(ids.begin(), ids.end());
    logits.assign(floats.begin(), floats.end());
  }

  std::string family;
  foredraft::Gguf file;
  std::vector<foredraft::TokenId> tokens;
  std::vector<double> logits;  // [tokens, n_vocab]
};

/// Greatest difference from the golden logits, relative to the greatest of them.
/// @shape rows [tokens, n_vocab]
inline double difference(const std::vector<std::vector<float>>& rows, const RandomGolden& golden) {
  double greatest = 0;
  double most = 0;
  std::size_t at = 0;
  for (const auto& row : rows) {
    for (const float logit : row) {
      const double expected = golden.logits.at(at++);
      greatest = std::max(greatest, std::abs(expected));
      // A NaN is as far away as can be.
      const double off = std::abs(logit - expected);
      most = off <= most ? most : off;
    }
  }
  CHECK(at == golden.logits.size());
  return most / greatest;
}

/// What the model writes behind the golden text, over a cache of type C.
template <typename C, typename M, typename D>
std::vector<foredraft::TokenId> text_of(M& model, const RandomGolden& golden, D& drafter,
                                        int depth) {
  foredraft::Decoder decoder{model, C{model.shape(), 256}, std::move(drafter), foredraft::Greedy{}};
  const auto result =
      decoder.generate(golden.tokens, {.max_tokens = 96, .n_draft = depth, .ignore_end = true});
  drafter = std::move(decoder.drafter());
  return result.tokens;
}
