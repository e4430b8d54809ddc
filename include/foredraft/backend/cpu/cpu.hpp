#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <foredraft/backend/backend.hpp>
#include <foredraft/backend/cpu/isa.hpp>
#include <foredraft/backend/cpu/kernel_table.hpp>
#include <foredraft/backend/cpu/layer_inputs.hpp>
#include <foredraft/backend/cpu/mixture.hpp>
#include <foredraft/backend/cpu/packed_matrix.hpp>
#include <foredraft/backend/cpu/recurrent.hpp>
#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/cpu/scratch.hpp>
#include <foredraft/backend/cpu/share.hpp>
#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/backend/cpu/weight_memory.hpp>
#include <foredraft/backend/cpu/worker.hpp>
#include <foredraft/backend/dequantized.hpp>
#include <foredraft/backend/host_memory.hpp>
#include <foredraft/backend/host_states.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/tensor.hpp>

namespace foredraft::inline v0 {

/// The processor as a backend: packed weights, the kernels of one instruction set, and the one
/// thread pool that all models of a program share.
///
/// Neither copyable nor movable: models keep its address, and it outlives them.
class Cpu : public HostMemory {
 public:
  using Matrix = cpu::PackedMatrix;
  using Worker = cpu::Worker;
  template <typename S>
  using Rows = cpu::Rows<S>;
  using States = Replay;

  struct Options {
    int threads = 0;  ///< 0: as many as may run at once (affinity mask, cgroup quota)
    std::optional<cpu::Isa> isa =
        std::nullopt;  ///< none: the widest that this program holds and this machine executes
  };

  /// @errors kInvalidOption for an instruction set or a number of threads that cannot be had
  explicit Cpu(Options options) : kernels_(choose(options.isa)), pool_(options.threads) {}
  Cpu() : Cpu(Options{}) {}
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  int threads() const noexcept { return pool_.size(); }
  cpu::Isa isa() const noexcept { return kernels_.isa; }
  /// How often the threads have waited for each other: ThreadPool::barriers().
  std::uint32_t barriers() const noexcept { return pool_.barriers(); }

  /// Repack a matrix, each part by the worker that will most likely read it.
  /// @cost one pass over the weights, on all workers
  /// @errors kShapeMismatch, kOutOfMemory
  Matrix pack(const TensorView& weights) {
    Matrix matrix = Matrix::allocate(weights.type, weights.n_out, weights.n_in, weights_);
    matrix.pack_panels(weights, 0, 0);  // checks the view, so that nothing can throw below
    pool_.run([&](int worker) {
      const cpu::Range mine = cpu::share(matrix.n_panels(), worker, pool_.size());
      matrix.pack_panels(weights, mine.begin, mine.end);
    });
    return matrix;
  }

  /// A vector of weights as floats. @errors kShapeMismatch
  Vector vector(const TensorView& weights) const { return dequantized_vector(weights); }

  /// body(worker) on every worker, all memory reserved before. A second thread that calls waits for
  /// the first; a call from inside a body would wait for itself.
  /// @errors kOutOfMemory, before any body begins
  template <typename Body>
  void run(const PassShape& shape, Body&& body) {
    const std::lock_guard<std::mutex> one_pass(passes_);
    scratch_.reserve(shape, pool_.size());
    pool_.run([&](int index) {
      Worker worker(kernels_, pool_, scratch_, index);
      body(worker);
    });
  }

 private:
  static const cpu::KernelTable& choose(std::optional<cpu::Isa> wanted) {
    std::string names;
    const cpu::KernelTable* widest = nullptr;
    for (const cpu::KernelTable* table : cpu::available_tables()) {
      if (!cpu::executable(table->isa)) continue;
      if (wanted == table->isa) return *table;
      widest = table;
      names.append(names.empty() ? "" : ", ").append(cpu::name_of(table->isa));
    }
    if (!wanted && widest != nullptr) return *widest;
    throw Error(ErrorCode::kInvalidOption,
                "the instruction set " +
                    std::string(wanted ? cpu::name_of(*wanted) : cpu::name_of(cpu::kBuildIsa)),
                names.empty() ? "one that this machine executes" : "one of " + names,
                "what is not compiled in comes with the library foredraft::compiled");
  }

  const cpu::KernelTable& kernels_;
  cpu::ThreadPool pool_;
  cpu::WeightMemory weights_;
  std::mutex passes_;
  cpu::Scratch scratch_;
};

static_assert(Backend<Cpu> && MixesExperts<cpu::Worker> && MappableMatrix<cpu::PackedMatrix>);
static_assert(NamesRows<Cpu, f16> && NamesRows<Cpu, q8_0> && NamesStates<Cpu>);
static_assert(AttendsOver<cpu::Worker, cpu::AnyRows> &&
              AttendsOver<cpu::Worker, cpu::Rows<q8_0, f16>>);
static_assert(RecursOver<cpu::Worker, Slots> && RecursOver<cpu::Worker, Replay>);

}  // namespace foredraft::inline v0
