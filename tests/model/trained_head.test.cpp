// What a trained head is made of: a stack of layers over what the target has computed, and the
// target's own head behind it.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <foredraft/model/layer_stack.hpp>
#include <foredraft/model/weights.hpp>
#include <foredraft/models.hpp>

#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

using Cache = fd::LinearCache<fd::f16>;
using Stack = fd::LayerStack<fd::Cpu>;
using Worker = fd::Cpu::Worker;
using Rows = std::vector<std::vector<float>>;

const std::vector<fd::TokenId> kTokens{72, 101, 108, 108, 111, 44, 32};
constexpr int kRows = 7;

/// A layer with weights of its own, read beside the model's: here its last one, so that what it makes of
/// the rows behind the layer before is known.
Stack last_layer(fd::Cpu& cpu, const fd::Gguf& file) {
  fd::ModelConfig config = fd::read_config(file);
  config.n_vocab = static_cast<int>(fd::Tokenizer::from(file).vocabulary().size());
  fd::ModelWeights<fd::Cpu> weights = fd::read_weights(cpu, file, config);
  std::vector<fd::RopeRotations> rotations;
  for (const fd::RopeShape& rope : config.ropes) rotations.emplace_back(rope);
  std::vector<fd::LayerWeights<fd::Cpu>> layers;
  layers.push_back(std::move(weights.layers.back()));
  return Stack(config.d_model, config.norm_epsilon, std::move(rotations), {config.layers.back()},
               std::move(layers));
}

/// Logits of the target's head behind a stack that runs over `x`.
/// @param x  [kRows, d_model], overwritten
Rows head_behind(const Stack& stack, fd::Cpu& cpu, const fd::Model<fd::Cpu>& target,
                 std::span<float> x) {
  const fd::AttentionShape& shape = target.config().layers.back().attention;
  Cache cache(fd::CacheShape({{shape.n_kv_heads, shape.d_head}}, 64));
  cache.stage(chain_nodes(kTokens));
  fd::Scores unread;
  fd::Request<Cache> request{&cache, 0, kRows, {fd::RowNeed::kNothing, {}}, &unread};
  Stack::Workspace work(stack);
  const auto pass = stack.prepare(std::span(&request, 1), work);

  Rows logits(kRows, std::vector<float>(fd::idx(target.vocab_size())));
  std::vector<float*> to;
  for (std::vector<float>& row : logits) to.push_back(row.data());
  const std::vector<std::int32_t> rows{0, 1, 2, 3, 4, 5, 6};
  std::vector<fd::TokenId> argmax(kRows);
  fd::HeadArgs<Worker> head = target.head_args();
  head.x = x.data();
  head.rows = rows;
  head.argmax = argmax;
  head.logits = to;
  fd::PassShape sizes = stack.shape();
  sizes.n_rows = kRows;
  cpu.run(sizes, [&](auto& worker) noexcept {
    stack.run(worker, pass, x.data(), [](int) noexcept {});
    worker.head(head);
  });
  return logits;
}

}  // namespace

TEST_CASE("a stack over tapped rows ends in the head of the target") {
  for (const char* family : {"llama", "gemma3", "granite"}) {
    CAPTURE(family);
    TinyModel tiny;
    tiny.family = family;
    const std::vector<std::byte> bytes = tiny.file();
    fd::Cpu cpu{{.threads = 2}};
    fd::Model target = fd::load(cpu, fd::Gguf::parse(bytes));
    const int before_last = static_cast<int>(target.config().layers.size()) - 2;

    Cache cache(target.shape(), 64);
    cache.stage(chain_nodes(kTokens));
    fd::Scores scores;
    const std::vector<int> taps{before_last};
    fd::Request<Cache> request{&cache, 0, kRows, {fd::RowNeed::kLogits, taps}, &scores};
    target.forward(std::span(&request, 1));
    std::vector<float> x;
    for (int i = 0; i < kRows; ++i) {
      const auto row = scores.tap(i, before_last);
      x.insert(x.end(), row.begin(), row.end());
    }

    const Rows logits = head_behind(last_layer(cpu, fd::Gguf::parse(bytes)), cpu, target, x);
    for (int i = 0; i < kRows; ++i) {
      const auto expected = std::as_const(scores).logits(i);
      CHECK(logits[fd::idx(i)] == std::vector<float>(expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("a head fuses rows of several layers into those that its stack runs over") {
  TinyModel tiny;
  tiny.n_layers = 4;
  const std::vector<std::byte> bytes = tiny.file();
  fd::Cpu cpu{{.threads = 2}};
  fd::Model target = fd::load(cpu, fd::Gguf::parse(bytes));
  const std::size_t d = fd::idx(tiny.d_model);

  Cache cache(target.shape(), 64);
  cache.stage(chain_nodes(kTokens));
  fd::Scores scores;
  const std::vector<int> taps{0, 1, 2};
  fd::Request<Cache> request{&cache, 0, kRows, {fd::RowNeed::kLogits, taps}, &scores};
  target.forward(std::span(&request, 1));

  // The head's own matrix [d, 3 * d], x = fusion * (row 0, row 1, row 2). This one takes the row of layer 2,
  // and of the others a multiple: with 0 the text is the target's, else it is not.
  const auto logits_with = [&](float others) {
    std::vector<float> fusion(d * 3 * d, 0.0f);
    for (std::size_t i = 0; i < d; ++i) {
      float* row = &fusion[i * 3 * d];
      row[i] = row[d + i] = others;
      row[2 * d + i] = 1.0f;
    }
    std::vector<float> x;
    for (int row = 0; row < kRows; ++row) {
      std::vector<float> tapped;
      for (const int layer : taps) {
        const auto of_layer = std::as_const(scores).tap(row, layer);
        tapped.insert(tapped.end(), of_layer.begin(), of_layer.end());
      }
      for (std::size_t i = 0; i < d; ++i) {
        x.push_back(std::inner_product(tapped.begin(), tapped.end(),
                                       fusion.begin() + static_cast<std::ptrdiff_t>(i * 3 * d),
                                       0.0f));
      }
    }
    return head_behind(last_layer(cpu, fd::Gguf::parse(bytes)), cpu, target, x);
  };
  Rows expected;
  for (int row = 0; row < kRows; ++row) {
    const auto logits = std::as_const(scores).logits(row);
    expected.emplace_back(logits.begin(), logits.end());
  }
  CHECK(logits_with(0.0f) == expected);
  CHECK(logits_with(0.5f) != expected);
}

TEST_CASE("rows that the embedding's operator writes are those that the first layer reads") {
  TinyModel tiny;
  tiny.family = "gemma3";  // which scales them
  tiny.n_layers = 1;
  const std::vector<std::byte> bytes = tiny.file();
  fd::Cpu cpu{{.threads = 2}};
  fd::Model target = fd::load(cpu, fd::Gguf::parse(bytes));
  std::vector<float> x(kRows * fd::idx(tiny.d_model));
  fd::EmbedArgs<Worker> embed = target.embed_args();
  embed.tokens = kTokens;
  embed.x = x.data();
  cpu.run({.n_rows = kRows, .d_model = tiny.d_model},
          [&](auto& worker) noexcept { worker.embed(embed); });

  Cache cache(target.shape(), 64);
  cache.stage(chain_nodes(kTokens));
  CHECK(head_behind(last_layer(cpu, fd::Gguf::parse(bytes)), cpu, target, x) ==
        forward_rows(target, cache, 0, kRows));
}
