// Fuzzing what sequences remember: operations in any order, on a cache and on a whole decoder, each
// beside something simpler that it has to agree with.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>

#include "fuzz/cache_trial.hpp"
#include "fuzz/choices.hpp"
#include "fuzz/decoder_trial.hpp"
#include "fuzz/fuzz_main.hpp"
#include "support/oracle_drafter.hpp"

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  switch (choices.below(5)) {
    case 0: return CacheTrial<float>(choices).run();
    case 1: return CacheTrial<foredraft::f16>(choices).run();
    case 2: return CacheTrial<foredraft::q8_0>(choices).run();
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
