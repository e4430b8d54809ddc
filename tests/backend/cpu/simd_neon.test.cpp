#include <foredraft/backend/cpu/simd_neon.hpp>

#include "backend/cpu/simd_checks.hpp"

#if defined(__aarch64__)
TEST_CASE("neon") { simd_under_test::check_operations(simd_under_test::kNeon); }
#else
TEST_CASE("not here") { CHECK_FALSE(foredraft::cpu::executable(foredraft::cpu::Isa::kNeon)); }
#endif
