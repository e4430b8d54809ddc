#include <string>

#include <foredraft/core/error.hpp>

#include "draft.hpp"
#include "target.hpp"
#include "usage.hpp"

// In place of gpu.cu where the program is built without CUDA.
namespace cli {

namespace {

[[noreturn]] void refuse(const std::string& of) {
  throw fd::Error(fd::ErrorCode::kDevice,
                  "--device" + of + " cuda in a program that was built without CUDA",
                  "one that was built with it: cmake --preset cuda", "use --device" + of + " cpu");
}

}  // namespace

void require_gpu(std::span<const GpuNeed> needs) { refuse(needs.front().of); }

std::unique_ptr<Target> load_on_gpu(const fd::Gguf&, const fd::LoadOptions&) { refuse(""); }

std::unique_ptr<Draft> load_draft_on_gpu(const fd::Gguf&, const fd::LoadOptions&) {
  refuse("-draft");
}

}  // namespace cli
