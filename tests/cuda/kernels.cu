// Every kernel of the backend, compiled for a GPU. That it compiles without a warning is the test; ptxas
// warns of a kernel that keeps something in local memory.

#include <foredraft/backend/cuda/cuda.cuh>

namespace fd = foredraft;
using Worker = fd::Cuda::Worker;

template class fd::CudaBackend<fd::cuda::GpuDevice>;
template class fd::cuda::Worker<fd::cuda::GpuDevice>;
template class fd::cuda::AnyRows<fd::cuda::GpuDevice>;
template class fd::cuda::Rows<fd::cuda::GpuDevice, fd::q8_0, fd::f16>;
template class fd::cuda::States<fd::cuda::SlotsLayer, fd::cuda::GpuDevice>;
template class fd::cuda::States<fd::cuda::ReplayLayer, fd::cuda::GpuDevice>;
template void Worker::short_conv(const fd::ShortConvArgs<Worker, fd::CudaReplay>&) noexcept;
template void Worker::selective_scan(const fd::SelectiveScanArgs<Worker, fd::CudaReplay>&) noexcept;
template void Worker::gated_delta_net(const fd::GatedDeltaNetArgs<Worker, fd::CudaSlots>&) noexcept;
template void Worker::qkv(const fd::QkvArgs<Worker, fd::CudaAnyRows>&) noexcept;
template void Worker::attend(const fd::AttendArgs<Worker, fd::CudaAnyRows>&) noexcept;
template void Worker::qkv(const fd::QkvArgs<Worker, fd::CudaRows<fd::q8_0, fd::f16>>&) noexcept;
template void Worker::attend(
    const fd::AttendArgs<Worker, fd::CudaRows<fd::q8_0, fd::f16>>&) noexcept;
