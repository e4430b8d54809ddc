#include <foredraft/backend/cpu/simd_portable.hpp>

#include "backend/cpu/simd_checks.hpp"

TEST_CASE("portable") { simd_under_test::check_operations(simd_under_test::kPortable); }
