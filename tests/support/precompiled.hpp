#pragma once

// What FOREDRAFT_PRECOMPILE_TESTS compiles once for all tests: headers that many of them include, and none that asks for
// FOREDRAFT_COMPILED, which not all of them define.

#include <Eigen/Core>

#include <foredraft/foredraft.hpp>
#include <foredraft/io/tokenizer.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"
