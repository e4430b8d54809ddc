#include <foredraft/core/error.hpp>

#include "target.hpp"
#include "usage.hpp"

// In place of gpu.cu where the program is built without CUDA.
namespace cli {

namespace {

[[noreturn]] void refuse() {
  throw fd::Error(fd::ErrorCode::kDevice, "--device cuda in a program that was built without CUDA",
                  "one that was built with it: cmake --preset cuda", "use --device cpu");
}

}  // namespace

void require_gpu(const fd::Gguf&, const fd::ModelConfig&, fd::RowFormats, int, double) { refuse(); }

std::unique_ptr<Target> load_on_gpu(const fd::Gguf&, const fd::LoadOptions&) { refuse(); }

}  // namespace cli
