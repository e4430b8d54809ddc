#include <map>

#include <foredraft/backend/cpu/cpu.hpp>

#include "fuzz/try_model_with.hpp"

void fuzz::try_model_with_cpu(std::span<const std::byte> file, int workers, TryCache cache) {
  // Kept for all inputs: starting threads takes longer than a small model.
  static std::map<int, foredraft::Cpu> cpus;
  const auto cpu = cpus.try_emplace(workers, foredraft::Cpu::Options{.threads = workers}).first;
  try_model_with(cpu->second, file, cache);
}
