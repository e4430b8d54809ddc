// Fuzzing whole model files: the bytes of a small model, changed at will. The model is refused with
// foredraft::Error, or it runs.

#include <cstddef>
#include <span>
#include <vector>

#include <foredraft/core/error.hpp>

#include "fuzz/fuzz_main.hpp"
#include "fuzz/small_model.hpp"
#include "fuzz/try_model.hpp"

bool fuzz::run(std::span<const std::byte> input) {
  try {
    try_model(input, TryBackend::kReference, TryCache::kFloat);
    return true;
  } catch (const foredraft::Error&) {
    return false;
  }
}

std::vector<fuzz::Bytes> fuzz::seeds() {
  std::vector<Bytes> all;
  for (unsigned type = 0; type < 5; ++type) {
    const std::byte choices[] = {static_cast<std::byte>(type % 2), static_cast<std::byte>(type)};
    all.push_back(small_model(choices));
  }
  return all;
}
