#include "backend/cpu/simd_under_test.hpp"

namespace simd_under_test {

constinit const Operations kAvxVnni = operations_of<cpu::AvxVnni>();

}  // namespace simd_under_test
