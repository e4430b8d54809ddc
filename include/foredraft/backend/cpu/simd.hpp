#pragma once

// The vector operations of every instruction set that the flags of this unit allow.

#include <foredraft/backend/cpu/simd_base.hpp>
#include <foredraft/backend/cpu/simd_neon.hpp>
#include <foredraft/backend/cpu/simd_portable.hpp>
#include <foredraft/backend/cpu/simd_x86.hpp>
