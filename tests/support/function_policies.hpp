#pragma once

#include <foredraft/testing/function_policies.hpp>

// Short names for tests.
using foredraft::testing::ChainFunction;
using foredraft::testing::ChainRule;
using foredraft::testing::FunctionDrafter;
using foredraft::testing::FunctionRule;
using foredraft::testing::TreeFunction;
using foredraft::testing::TreeRule;
