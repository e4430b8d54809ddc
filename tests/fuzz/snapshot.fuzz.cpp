// Fuzzing what sequences remember: operations in any order, on a cache and on a whole decoder, each
// beside something simpler that it has to agree with.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/cache/linear.hpp>
#include <foredraft/cache/rotating.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>

#include "fuzz/cache_trial.hpp"
#include "fuzz/choices.hpp"
#include "fuzz/decoder_trial.hpp"
#include "fuzz/fuzz_main.hpp"
#include "support/oracle_drafter.hpp"

namespace {

/// Keys and values in any pair of formats.
template <typename Cache>
bool try_cache(fuzz::Choices& choices) {
  const auto format = [&] {
    return static_cast<foredraft::RowFormat>(choices.below(foredraft::kRowFormats));
  };
  const foredraft::RowFormat k = format();
  const foredraft::RowFormat v = format();
  return fuzz::CacheTrial<Cache>(choices, {k, v}).run();
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  switch (choices.below(5)) {
    case 0:
    case 1: return try_cache<foredraft::LinearCache<foredraft::cpu::AnyRows>>(choices);
    case 2: return try_cache<foredraft::RotatingCache<foredraft::cpu::AnyRows>>(choices);
    case 3: return DecoderTrial(choices, foredraft::PromptLookup{}).run();
    default: {
      // What it takes for the truth is noise: trees whose tokens are right now and then.
      std::vector<foredraft::TokenId> noise;
      for (int i = 0; i < 48; ++i) noise.push_back(choices.take<std::uint8_t>() % 6);
      return DecoderTrial(choices, OracleDrafter{noise, 6, 0.3, 1, 3}).run();
    }
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() { return noise(64, 400); }
