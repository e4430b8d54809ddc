// Executes the kernels on the host and writes what they compute, for test.gpu to compare:
//   write_host_values FILE

#include <foredraft/backend/cuda/cuda_backend.hpp>
#include <foredraft/backend/cuda/host_device.hpp>

#include <cstdio>
#include <fstream>

#include "cuda/layer_values.hpp"

namespace fd = foredraft;
using fd::cuda::HostDevice;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_host_values FILE\n");
    return 2;
  }
  const auto values =
      LayerValues::of<fd::CudaBackend<HostDevice>, fd::cuda::Rows<HostDevice, float>>();
  std::ofstream out(argv[1]);
  out.precision(9);
  for (const auto* some : {&values.exact, &values.rounded}) {
    for (const float value : *some) out << value << '\n';
  }
  for (const int token : values.argmax) out << token << '\n';
  return out.flush() ? 0 : 1;
}
