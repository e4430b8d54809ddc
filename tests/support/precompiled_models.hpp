#pragma once

// As precompiled.hpp, for tests that link foredraft::compiled.

#include <Eigen/Core>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/models.hpp>
#include <foredraft/testing/law.hpp>

#include "support/catch.hpp"
