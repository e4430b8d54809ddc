#pragma once

#include <foredraft/testing/toy_target.hpp>

/// Short names for tests.
namespace toy {
using Target = foredraft::testing::HashTarget;
using foredraft::testing::TokenCache;
}  // namespace toy
