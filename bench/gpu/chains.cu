// What kernels of a GPU cost besides what they do: how long after the end of one the next begins, and how long
// code takes to arrive that is executed once. Each is a graph of kernels one behind the other, as a pass is.
//
//   bench.gpu_chains > chains.json

#include <foredraft/backend/cuda/gpu_check.cuh>

#include <array>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include <foredraft/core/index.hpp>
#include <nlohmann/json.hpp>

#include "../support/summary.hpp"

namespace {

namespace fd = foredraft;
using fd::cuda::check;
using Json = nlohmann::ordered_json;

constexpr int kThreads = 128, kKernels = 192, kKinds = 16, kTurns = 15;
constexpr std::array kBlocks = {40, 264};  // hardly any, and all that an H200 holds of a product's

/// kLength multiplications in a line. @tparam kKind  makes code of its own
template <int kKind, int kLength>
__global__ void __launch_bounds__(kThreads, 1) line(float* x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  float v[4];
  for (int i = 0; i < 4; ++i) v[i] = x[threadIdx.x + kThreads * i];
#pragma unroll
  for (int i = 0; i < kLength; ++i) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;"
                 : "+f"(v[i % 4])
                 : "f"(v[(i + 1) % 4]), "f"(static_cast<float>(kKind + i)));
  }
  if (v[0] + v[1] + v[2] + v[3] == 12345.0f) x[0] = 1.0f;
}

/// Barriers of all blocks of a kernel, which would be another way to put one step behind the other.
__global__ void __launch_bounds__(kThreads, 1) barriers(unsigned* arrived, unsigned times) {
  for (unsigned i = 1; i <= times; ++i) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1u);
      while (*static_cast<volatile unsigned*>(arrived) < i * gridDim.x) continue;
      __threadfence();
    }
    __syncthreads();
  }
}

/// Of the GPU, the median of some turns.
template <typename F>
double seconds_of(F&& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  std::vector<double> all;
  for (int turn = 0; turn < kTurns; ++turn) {
    check(cudaEventRecord(begin), "an event");
    work();
    check(cudaEventRecord(end), "an event");
    check(cudaDeviceSynchronize(), "what is measured");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "an event");
    all.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  check(cudaEventDestroy(begin), "an event");
  check(cudaEventDestroy(end), "an event");
  return bench::median(all);
}

double seconds_a_barrier(int blocks, unsigned* arrived) {
  unsigned times = 1000;
  void* args[] = {&arrived, &times};
  return seconds_of([&] {
           check(cudaMemsetAsync(arrived, 0, sizeof(unsigned)), "memory");
           check(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(&barriers),
                                             dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                                             args, 0, nullptr),
                 "a kernel");
         }) /
         times;
}

#if CUDART_VERSION >= 13000
constexpr auto add_node = &cudaGraphAddNode;
#else
constexpr auto add_node = &cudaGraphAddNode_v2;
#endif

using Kernel = void (*)(float*);
template <int kLength, int... kKind>
std::vector<Kernel> lines(std::integer_sequence<int, kKind...>) {
  return {&line<kKind, kLength>...};
}

/// A graph, and what of it is started.
class Chain {
 public:
  Chain(const std::vector<Kernel>& kernels, int kinds, int blocks, bool early, float* x) {
    check(cudaGraphCreate(&graph_, 0), "a graph");
    void* args[] = {&x};
    cudaGraphEdgeData edge = {};
    if (early) {
      edge.from_port = cudaGraphKernelNodePortProgrammatic;
      edge.type = cudaGraphDependencyTypeProgrammatic;
    }
    cudaGraphNode_t before = nullptr;
    for (int i = 0; i < kKernels; ++i) {
      cudaGraphNodeParams params = {};
      params.type = cudaGraphNodeTypeKernel;
      params.kernel.func = reinterpret_cast<void*>(kernels[fd::idx(i % kinds)]);
      params.kernel.gridDim = dim3(static_cast<unsigned>(blocks));
      params.kernel.blockDim = dim3(kThreads);
      params.kernel.kernelParams = args;
      cudaGraphNode_t node = nullptr;
      check(add_node(&node, graph_, i == 0 ? nullptr : &before, i == 0 ? nullptr : &edge,
                     i == 0 ? 0 : 1, &params),
            "a kernel");
      before = node;
    }
    check(cudaGraphInstantiate(&started_, graph_, 0), "a graph");
  }
  ~Chain() {
    (void)cudaGraphExecDestroy(started_);
    (void)cudaGraphDestroy(graph_);
  }
  Chain(const Chain&) = delete;

  double seconds_a_kernel() const {
    return seconds_of([&] { check(cudaGraphLaunch(started_, nullptr), "a graph"); }) / kKernels;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t started_ = nullptr;
};

template <int kLength>
void measure(Json& out, float* x) {
  const std::vector<Kernel> kernels = lines<kLength>(std::make_integer_sequence<int, kKinds>());
  for (const int blocks : kBlocks) {
    Json one{{"instructions", kLength}, {"blocks", blocks}};
    one["behind_the_end"] = Chain(kernels, 1, blocks, false, x).seconds_a_kernel();
    for (const int kinds : {1, 4, 16}) {
      const double seconds = Chain(kernels, kinds, blocks, true, x).seconds_a_kernel();
      one["early"][std::to_string(kinds)] = seconds;
      std::fprintf(stderr, "%5d instructions, %3d blocks, %2d kernels in turns: %.2f us a kernel\n",
                   kLength, blocks, kinds, 1e6 * seconds);
    }
    out.push_back(one);
  }
}

}  // namespace

int main() {
  try {
    float* x = nullptr;
    check(cudaMalloc(&x, 4 * kThreads * sizeof(float)), "memory");
    check(cudaMemset(x, 0, 4 * kThreads * sizeof(float)), "memory");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "a GPU");
    Json chains = Json::array();
    measure<32>(chains, x);
    measure<512>(chains, x);
    measure<1024>(chains, x);
    measure<2048>(chains, x);
    Json of_barriers;
    for (const int blocks : kBlocks) {
      const double seconds = seconds_a_barrier(blocks, reinterpret_cast<unsigned*>(x));
      of_barriers[std::to_string(blocks)] = seconds;
      std::fprintf(stderr, "barrier of %d blocks: %.2f us\n", blocks, 1e6 * seconds);
    }
    const Json result{{"device", properties.name},
                      {"kernels", kKernels},
                      {"chains", chains},
                      {"seconds_a_barrier", of_barriers}};
    std::cout << result.dump(1) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench.gpu_chains: %s\n", error.what());
    return 1;
  }
}
