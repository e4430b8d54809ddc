#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kPortable = operations_of<cpu::Portable>();

}  // namespace simd_under_test
