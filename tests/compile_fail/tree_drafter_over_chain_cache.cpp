// expect: this cache stages chains only, and this drafter may propose trees
#include <foredraft/foredraft.hpp>

#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

/// Of an engine that can go back by positions and knows no trees.
struct ChainCache : toy::TokenCache {
  using toy::TokenCache::TokenCache;
  static constexpr foredraft::Shape shape = foredraft::Shape::kChain;
};

struct Target : toy::Target {
  using toy::Target::forward;
  using toy::Target::Target;
  void forward(std::span<foredraft::Request<ChainCache>> requests);
};

#ifdef FOREDRAFT_CONTROL
using Drafter = foredraft::PromptLookup;
#else
struct Drafter : OracleDrafter {
  Drafter() : OracleDrafter({}, 16, 0.0, 1) {}
};
#endif

void decode(Target& target) {
  foredraft::Decoder decoder{target, ChainCache{}, Drafter{}, foredraft::Greedy{}};
  decoder.resume();
}
