#pragma once

#include <cuda_runtime.h>

#include <string>

#include <foredraft/core/error.hpp>

namespace foredraft::inline v0::cuda {

/// Throws what a call of the CUDA runtime returned, with what it was for.
/// @errors kOutOfMemory, kDevice
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would report it again
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
    throw Error(ErrorCode::kDevice,
                error == cudaErrorNoDevice ? "no NVIDIA GPU" : "no NVIDIA driver, or one too old",
                "a GPU, and a driver for CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                    std::to_string(CUDART_VERSION % 1000 / 10),
                "use the backend Cpu");
  }
  throw Error(error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
              std::string(what) + " failed: " + cudaGetErrorString(error), "a call that succeeds",
              "");
}

}  // namespace foredraft::inline v0::cuda
