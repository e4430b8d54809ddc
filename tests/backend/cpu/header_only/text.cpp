// Writes the tokens of a small model of each kind of weights. Built twice: with
// foredraft::compiled, and without it for the machine at hand, as research code would be. Both have
// to write the same.
#include <foredraft/models.hpp>

#include <iostream>

#include "support/tiny_model.hpp"

namespace fd = foredraft;

int main() {
  for (const fd::TensorType type : {fd::TensorType::kQ4_0, fd::TensorType::kQ4_K,
                                    fd::TensorType::kQ6_K, fd::TensorType::kF16}) {
    TinyModel tiny;
    tiny.type = type;
    tiny.d_model = tiny.d_ff = 256;
    const auto bytes = tiny.file();
    fd::Cpu cpu{{.threads = 2}};
    auto model = fd::load(cpu, fd::Gguf::parse(bytes));
    fd::Decoder decoder{model, fd::LinearCache<fd::f16>{model.shape()},
                        fd::PromptLookup{{.min_match = 1}}, fd::SampleAndMatch{}};
    const std::vector<fd::TokenId> prompt{72, 101, 108, 108, 111, 44, 32, 119, 111};
    const auto tokens = decoder
                            .generate(prompt, {.max_tokens = 64,
                                               .n_draft = 12,
                                               .sampling = {.temperature = 1.0f},
                                               .ignore_end = true})
                            .tokens;
    for (const fd::TokenId token : tokens) std::cout << token << ' ';
    std::cout << '\n';
  }
}
