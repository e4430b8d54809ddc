#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kNeon = operations_of<cpu::Neon>();

}  // namespace simd_under_test
