// Fuzzing the configuration of models: metadata and tensors that contradict each other or stand
// where sizes overflow. The model is refused with foredraft::Error, or it runs.

#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/core/error.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/fuzz_main.hpp"
#include "fuzz/small_model.hpp"
#include "fuzz/try_model.hpp"

bool fuzz::run(std::span<const std::byte> input) {
  Choices choices(input);
  using enum TryBackend;
  static constexpr TryBackend kBackends[] = {kReference, kCpu, kReference, kCpu,
                                             kReference, kCpu, kReference, kCpuWorkers};
  const TryBackend backend = choices.pick(kBackends);
  const auto cache = static_cast<TryCache>(choices.below(3));
  const std::vector<std::byte> file = SmallModel(choices).file();
  try {
    try_model(file, backend, cache);
    return true;
  } catch (const foredraft::Error&) {
    return false;
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() {
  std::vector<Bytes> all = noise(8, 100);
  // Models that run, by each backend, over each cache, in each family and format.
  for (unsigned i = 0; i < 24; ++i) {
    Bytes choices(64);
    choices[0] = static_cast<std::byte>(i % 8);
    choices[1] = static_cast<std::byte>(i % 3);
    choices[2] = static_cast<std::byte>(i / 2 % 2);
    choices[3] = static_cast<std::byte>(i / 3);
    choices[12] = std::byte{1};  // heads of 64 dimensions
    all.push_back(choices);
  }
  return all;
}
