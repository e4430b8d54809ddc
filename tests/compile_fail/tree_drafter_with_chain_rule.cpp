// expect: this acceptance rule verifies chains only, and this drafter may propose trees
#include <foredraft/foredraft.hpp>

#include "support/oracle_drafter.hpp"
#include "support/toy_target.hpp"

#ifdef FOREDRAFT_CONTROL
using Rule = foredraft::SampleAndMatch;
#else
using Rule = foredraft::BlockVerification;
#endif

void decode(toy::Target& target) {
  foredraft::Decoder decoder{target, toy::TokenCache{}, OracleDrafter{{}, 16, 0.0, 1}, Rule{}};
  decoder.resume();
}
