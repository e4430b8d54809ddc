#pragma once

#include <foredraft/testing/exact_law.hpp>

#include "support/enumerating_rng.hpp"
#include "support/toy_target.hpp"

/// Short name for tests.
namespace law = foredraft::testing;
