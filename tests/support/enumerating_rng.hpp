#pragma once

#include <foredraft/testing/enumerating_rng.hpp>

// Short names for tests.
using foredraft::testing::EnumeratingRng;
using foredraft::testing::KeyReuse;
