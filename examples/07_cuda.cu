// The same decoder on a GPU: the backend is what changes.

#include <foredraft/backend/cuda/cuda.cuh>
#include <foredraft/foredraft.hpp>
#include <foredraft/model/load.hpp>

#include <cstdio>

namespace fd = foredraft;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 07_cuda MODEL.gguf\n");
    return 2;
  }
  try {
    fd::Cuda cuda;  // the GPU that is current
    auto target = fd::load(cuda, argv[1]);
    fd::Decoder decoder{target, target.make_cache({.n_ctx = 4096}), fd::PromptLookup{},
                        fd::Greedy{}};
    const auto prompt = target.tokenizer().encode("The quick brown fox");
    const fd::Result result = decoder.generate(prompt, {.max_tokens = 64}, [](const auto& emitted) {
      std::fputs(std::string(emitted.text).c_str(), stdout);
      std::fflush(stdout);
    });
    std::printf("\n%d tokens in %d rounds\n", static_cast<int>(result.tokens.size()),
                static_cast<int>(result.stats.rounds));
  } catch (const fd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
