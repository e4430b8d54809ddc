#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kAvx2 = operations_of<cpu::Avx2>();

}  // namespace simd_under_test
