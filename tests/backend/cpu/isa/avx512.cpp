#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kAvx512 = operations_of<cpu::Avx512>();

}  // namespace simd_under_test
