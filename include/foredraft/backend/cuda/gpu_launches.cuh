#pragma once

#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include <foredraft/backend/cuda/gpu_check.cuh>
#include <foredraft/backend/cuda/gpu_thread.cuh>
#include <foredraft/backend/cuda/launch_list.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0::cuda {

/// A kernel as the GPU starts it. Arguments stay where the driver puts them: a part that is chosen at
/// run time would otherwise be copied to every thread's own memory.
template <typename K>
__global__ void __launch_bounds__(K::kThreads, 1)
    run_kernel(const __grid_constant__ typename K::Args args) {
  GpuThread thread;
  thread.let_next_begin();
  if constexpr (!LoadsAhead<K>) thread.wait_for_kernels();
  K::run(thread, args);
}

/// Starts kernels of a GPU in one stream, alone or as a graph: see LaunchGraphs. In a graph a kernel
/// may begin as soon as all blocks of the one before have, and waits for its end where it has to
/// (programmatic dependent launch).
class GpuLaunches {
 public:
  class Graph {
   public:
    Graph() noexcept = default;
    Graph(Graph&& other) noexcept
        : graph_(std::exchange(other.graph_, nullptr)),
          started_(std::exchange(other.started_, nullptr)),
          nodes_(std::move(other.nodes_)) {}
    Graph& operator=(Graph&& other) noexcept {
      std::swap(graph_, other.graph_);
      std::swap(started_, other.started_);
      std::swap(nodes_, other.nodes_);
      return *this;
    }
    ~Graph() {
      if (started_ != nullptr) (void)cudaGraphExecDestroy(started_);
      if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
    }

   private:
    friend GpuLaunches;
    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t started_ = nullptr;
    std::vector<cudaGraphNode_t> nodes_;  // of the launches
  };

  /// @param overlap  kernels of a graph begin early: all of them wait, so they are compiled for compute
  ///   9.0 or later; before CUDA 13 none does
  GpuLaunches(cudaStream_t stream, bool overlap) : stream_(stream), overlap_(overlap) {}

  void start(const LaunchList& list, int i) const {
    const Launch& launch = list[i];
    void* args[] = {const_cast<void*>(list.args(i))};
    check(cudaLaunchKernel(launch.kernel, blocks_of(launch), threads_of(launch), args,
                           idx(launch.shared), stream_),
          launch.name);
  }

  Graph graph_of(const LaunchList& list) const {
    Graph graph;
    check(cudaGraphCreate(&graph.graph_, 0), "making a graph");
    for (int i = 0; i < list.size(); ++i) graph.nodes_.push_back(add(graph, list, i));
    check(cudaGraphInstantiate(&graph.started_, graph.graph_, 0), "making a graph of kernels");
    return graph;
  }

  void update(Graph& graph, const LaunchList& list, int i) const {
    void* args[] = {const_cast<void*>(list.args(i))};
    const cudaKernelNodeParams params = params_of<cudaKernelNodeParams>(list[i], args);
    check(cudaGraphExecKernelNodeSetParams(graph.started_, graph.nodes_[idx(i)], &params),
          list[i].name);
  }

  void start(Graph& graph) const {
    check(cudaGraphLaunch(graph.started_, stream_), "a graph of kernels");
  }

 private:
  static dim3 blocks_of(const Launch& launch) noexcept {
    return {static_cast<unsigned>(launch.grid.x), static_cast<unsigned>(launch.grid.y),
            static_cast<unsigned>(launch.grid.z)};
  }
  static dim3 threads_of(const Launch& launch) noexcept {
    return {static_cast<unsigned>(launch.threads), 1, 1};
  }
  template <typename P>
  static P params_of(const Launch& launch, void** args) noexcept {
    P params = {};
    params.func = const_cast<void*>(launch.kernel);
    params.gridDim = blocks_of(launch);
    params.blockDim = threads_of(launch);
    params.sharedMemBytes = static_cast<unsigned>(launch.shared);
    params.kernelParams = args;
    return params;
  }

  /// Launch i, behind the one before.
  cudaGraphNode_t add(Graph& graph, const LaunchList& list, int i) const {
    void* args[] = {const_cast<void*>(list.args(i))};
    const cudaGraphNode_t* const before = i == 0 ? nullptr : &graph.nodes_.back();
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    cudaGraphEdgeData edge = {};
    if (overlap_) {
      edge.from_port = cudaGraphKernelNodePortProgrammatic;
      edge.type = cudaGraphDependencyTypeProgrammatic;
    }
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel = params_of<cudaKernelNodeParamsV2>(list[i], args);
    check(cudaGraphAddNode(&node, graph.graph_, before, before == nullptr ? nullptr : &edge,
                           before == nullptr ? 0 : 1, &params),
          list[i].name);
#else
    const cudaKernelNodeParams params = params_of<cudaKernelNodeParams>(list[i], args);
    check(cudaGraphAddKernelNode(&node, graph.graph_, before, before == nullptr ? 0 : 1, &params),
          list[i].name);
#endif
    return node;
  }

  cudaStream_t stream_;
  bool overlap_;
};

}  // namespace foredraft::inline v0::cuda
