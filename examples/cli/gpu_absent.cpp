#include <array>
#include <memory>
#include <span>

#include <foredraft/core/error.hpp>

#include "draft.hpp"
#include "target.hpp"
#include "usage.hpp"

// In place of gpu.cu where the program is built without CUDA.
namespace cli {

namespace {

[[noreturn]] void refuse(std::span<const GpuNeed> needs) {
  throw fd::Error(fd::ErrorCode::kDevice,
                  "--device" + needs.front().of + " cuda in a program that was built without CUDA",
                  "one that was built with it: cmake --preset cuda", "use " + without_gpu(needs));
}

}  // namespace

void require_gpu(std::span<const GpuNeed> needs) { refuse(needs); }

// Nobody comes as far as this: require_gpu() is asked before a model is loaded.
std::unique_ptr<Target> load_on_gpu(const fd::Gguf&, const fd::LoadOptions&) {
  refuse(std::array{GpuNeed{}});
}

std::unique_ptr<Draft> load_draft_on_gpu(const fd::Gguf&, const fd::LoadOptions&) {
  refuse(std::array{GpuNeed{.of = "-draft"}});
}

}  // namespace cli
