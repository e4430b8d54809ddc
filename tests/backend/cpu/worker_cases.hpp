#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/mini_model.hpp"
#include "support/catch.hpp"
#include "support/instruction_sets.hpp"

/// What tests of a worker's operators share: matrices of both backends, and the cases to run.
namespace worker_cases {

namespace fd = foredraft;
using fd::TensorType;
using Exact = fd::Reference::Matrix;

struct Pair {
  fd::Cpu::Matrix packed;
  Exact exact;

  Pair(fd::Cpu& cpu, const fd::TensorView& view)
      : packed(cpu.pack(view)), exact(fd::Reference().pack(view)) {}
  Pair(fd::Cpu& cpu, TensorType type, int n_out, int n_in, unsigned seed)
      : Pair(cpu, mini::weights(type, n_out, n_in, seed).view()) {}

  /// Ones in the diagonal: its product is its input, to the bit.
  static Pair identity(fd::Cpu& cpu, std::size_t n_out, std::size_t n_in) {
    std::vector<float> values(n_out * n_in);
    for (std::size_t i = 0; i < std::min(n_out, n_in); ++i) values[i * n_in + i] = 1.0f;
    return {cpu, {TensorType::kF32, n_out, n_in, std::as_bytes(std::span(values))}};
  }

  /// Greatest error of output n for inputs up to `greatest`.
  double bound(Eigen::Index n, double greatest) const {
    const bool floats = fd::quant_geometry(packed.type()).elements == 0;
    return exact.row(n).cast<double>().cwiseAbs().sum() * greatest * (floats ? 1e-5 : 1.0 / 253) +
           1e-6;
  }
};

/// For all formats, some numbers of rows and workers with the widest instruction set, and two
/// workers with the others.
template <typename Check>
void for_each_case(Check&& check) {
  const std::vector<fd::cpu::Isa> isas = usable_isas();
  for (const fd::cpu::Isa isa : isas) {
    for (const int threads : {1, 2, 3}) {
      if (threads != 2 && isa != isas.back()) continue;
      fd::Cpu cpu{{.threads = threads, .isa = isa}};
      for (const TensorType type : kernels_under_test::kTypes) {
        for (const int n_rows : {1, 7, 33}) {
          CAPTURE(fd::cpu::name_of(isa), threads, fd::layout_of(type)->name, n_rows);
          check(cpu, type, n_rows);
        }
      }
    }
  }
}

}  // namespace worker_cases
