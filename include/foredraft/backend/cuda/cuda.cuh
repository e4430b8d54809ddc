#pragma once

#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/cuda/gpu_device.cuh>
#include <foredraft/backend/cuda/rows.hpp>
#include <foredraft/backend/cuda/states.hpp>
#include <foredraft/backend/row_storage.hpp>
#include <foredraft/backend/state_storage.hpp>
#include <foredraft/core/half.hpp>
#include <foredraft/core/q8_0.hpp>

namespace foredraft::inline v0 {

/// A model on a GPU: see CudaBackend.
/// @errors kDevice where there is no GPU or no driver; a program starts without one
using Cuda = CudaBackend<cuda::GpuDevice>;
static_assert(Backend<Cuda> && NamesRows<Cuda, f16> && NamesRows<Cuda, q8_0> && NamesStates<Cuda>);

/// What a cache of a model on Cuda keeps its rows in, for who makes one: `LinearCache<CudaRows<f16>>`, or
/// with keys and values in different formats `LinearCache<CudaRows<q8_0, f16>>`.
template <typename K, typename V = K>
using CudaRows = cuda::Rows<cuda::GpuDevice, K, V>;
/// Likewise, in the formats of the shape: `LinearCache<CudaAnyRows>`.
using CudaAnyRows = cuda::AnyRows<cuda::GpuDevice>;
static_assert(RingStorage<CudaAnyRows> && RingStorage<CudaRows<q8_0, f16>>);

/// Likewise for the states of recurrent layers: `HybridCache<CudaRows<f16>, CudaReplay>`.
using CudaReplay = cuda::Replay<cuda::GpuDevice>;
using CudaSlots = cuda::Slots<cuda::GpuDevice>;
static_assert(StateStorage<CudaReplay> && StateStorage<CudaSlots>);
static_assert(RecursOver<Cuda::Worker, CudaReplay> && RecursOver<Cuda::Worker, CudaSlots>);

}  // namespace foredraft::inline v0
