#include <foredraft/backend/cpu/simd_x86.hpp>

#include "backend/cpu/simd_checks.hpp"

#if defined(__x86_64__)
TEST_CASE("avx2") { simd_under_test::check_operations(simd_under_test::kAvx2); }
TEST_CASE("avx-vnni") { simd_under_test::check_operations(simd_under_test::kAvxVnni); }
TEST_CASE("avx512") { simd_under_test::check_operations(simd_under_test::kAvx512); }
TEST_CASE("avx512-vnni") { simd_under_test::check_operations(simd_under_test::kAvx512Vnni); }
#else
TEST_CASE("not here") { CHECK_FALSE(foredraft::cpu::executable(foredraft::cpu::Isa::kAvx2)); }
#endif
