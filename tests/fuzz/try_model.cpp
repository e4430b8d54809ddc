#include "fuzz/try_model.hpp"

#include <foredraft/backend/reference/reference.hpp>

#include "fuzz/try_model_with.hpp"

void fuzz::try_model(std::span<const std::byte> file, TryBackend backend, TryCache cache) {
  if (backend == TryBackend::kReference) {
    foredraft::Reference reference;
    try_model_with(reference, file, cache);
  } else {
    try_model_with_cpu(file, backend == TryBackend::kCpu ? 1 : 3, cache);
  }
}
