#include <foredraft/backend/cpu/layer_inputs.hpp>

#include <cmath>
#include <vector>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/backend/reference/reference.hpp>

#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

constexpr int kModel = 96;
constexpr int kInput = 40;  // of each of three layers: no multiple of a panel
constexpr int kWidth = 3 * kInput;
constexpr int kVocab = 20;

/// What the layers are given of some tokens. @shape x [tokens, kModel]
template <typename B>
std::vector<float> inputs_of(B& backend, const std::vector<fd::TokenId>& tokens,
                             const std::vector<float>& x) {
  const auto table = backend.pack(mini::weights(fd::TensorType::kF16, kVocab, kWidth, 1).view());
  const auto projection =
      backend.pack(mini::weights(fd::TensorType::kF32, kWidth, kModel, 2).view());
  const std::vector<float> norm = mini::normals(kInput, 3);
  std::vector<float> inputs(tokens.size() * kWidth);
  const fd::PassShape shape{.n_rows = static_cast<int>(tokens.size()),
                            .d_model = kModel,
                            .d_head = 16,
                            .d_inputs = kWidth};
  backend.run(shape, [&]<typename W>(W& worker) noexcept {
    worker.embed_layers(fd::EmbedLayersArgs<W>{.x = x.data(),
                                               .tokens = tokens,
                                               .table = &table,
                                               .projection = &projection,
                                               .norm = {norm.data(), 1e-5f},
                                               .d_input = kInput,
                                               .scale = 3.0f,
                                               .inputs = inputs.data()});
  });
  return inputs;
}

}  // namespace

TEST_CASE("what layers are given is that of the reference, and of each row alone") {
  const std::vector<fd::TokenId> tokens{3, 0, 19, 3, 7};
  const std::vector<float> x = mini::normals(tokens.size() * kModel, 4);
  fd::Reference reference;
  const std::vector<float> exact = inputs_of(reference, tokens, x);
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    fd::Cpu cpu{{.threads = threads}};
    const std::vector<float> all = inputs_of(cpu, tokens, x);
    double worst = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      worst = std::fmax(worst, std::abs(all[i] - exact[i]));
    }
    CHECK(worst < 1e-5);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kModel);
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(row * kWidth);
      CHECK(inputs_of(cpu, {tokens[row]}, {begin, begin + kModel}) ==
            std::vector<float>(at, at + kWidth));
    }
  }
}
