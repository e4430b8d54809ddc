#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kAvx512Vnni = operations_of<cpu::Avx512Vnni>();

}  // namespace simd_under_test
