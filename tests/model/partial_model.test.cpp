#include <foredraft/model/partial_model.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/throws.hpp"
#include "support/tiny_pair.hpp"

namespace fd = foredraft;

namespace {

using Partial = fd::PartialModel<fd::Cpu>;
using Rows = std::vector<std::vector<float>>;

const std::vector<fd::TokenId> kTokens{72, 101, 108, 108, 111, 44, 32};

template <typename M>
Rows rows_of(M& model, const fd::CacheShape& shape) {
  fd::LinearCache<fd::f16> cache(shape, 64);
  cache.stage(chain_nodes(kTokens));
  return forward_rows(model, cache, 0, static_cast<int>(kTokens.size()));
}

/// A file of its own for a backend that is not there any more when the test is over.
struct Loaded {
  explicit Loaded(const TinyModel& tiny)
      : bytes(tiny.file()), model(fd::load(cpu, fd::Gguf::parse(bytes))) {}
  std::vector<std::byte> bytes;
  fd::Cpu cpu{{.threads = 2}};
  fd::Model<fd::Cpu> model;
};

}  // namespace

TEST_CASE("all layers are the model, and the first ones are the model cut short, to the bit") {
  for (const char* family : {"llama", "qwen2", "gemma3", "qwen3moe"}) {
    CAPTURE(family);
    TinyModel tiny;
    tiny.family = family;
    TinyPair pair(tiny);
    Partial whole(pair.target, {0, 1});
    CHECK(whole.size() == 2);
    CHECK(rows_of(whole, pair.target.shape()) == rows_of(pair.target, pair.target.shape()));
    Partial first(pair.target, {0});
    CHECK(first.size() == 1);
    CHECK(first.vocab_size() == tiny.n_vocab);
    const Rows rows = rows_of(first, pair.target.shape());
    CHECK(rows == rows_of(pair.draft, pair.draft.shape()));
    CHECK(rows != rows_of(pair.target, pair.target.shape()));
  }
}

TEST_CASE("a layer in the middle is left out, and the others read what is their own") {
  TinyModel tiny;
  tiny.n_layers = 4;
  Loaded loaded(tiny);
  Partial some(loaded.model, {0, 2, 3});
  Partial others(loaded.model, {0, 1, 3});
  const fd::CacheShape shape = loaded.model.shape();
  CHECK(rows_of(some, shape) != rows_of(others, shape));
  // Behind rows of the whole model, in one pass or token by token: the same bits.
  fd::LinearCache<fd::f16> cache(shape, 64);
  cache.stage(chain_nodes(kTokens));
  forward_rows(loaded.model, cache, 0, static_cast<int>(kTokens.size()));
  std::vector<fd::NodeIndex> path;
  for (int i = 0; i < static_cast<int>(kTokens.size()); ++i) path.push_back(i);
  cache.commit(path);
  cache.stage(chain_nodes(kTokens));
  const Rows together = forward_rows(some, cache, 0, static_cast<int>(kTokens.size()));
  Rows single;
  for (int i = 0; i < static_cast<int>(kTokens.size()); ++i) {
    single.push_back(forward_rows(some, cache, i, 1)[0]);
  }
  CHECK(together == single);
}

TEST_CASE("layers that the model does not have, or cannot do without, are refused") {
  using fd::ErrorCode;
  const auto making = [](fd::Model<fd::Cpu>& model, const std::vector<int>& layers) {
    return code_of([&] { Partial(model, layers); });
  };
  Loaded llama{TinyModel{}};
  for (const auto& layers : std::vector<std::vector<int>>{{}, {-1}, {2}, {1, 0}, {1, 1}}) {
    CHECK(making(llama.model, layers) == ErrorCode::kInvalidOption);
  }
  TinyModel shared;
  shared.family = "gemma4";
  shared.n_layers = 4;  // of which the last two read the keys of earlier ones
  Loaded gemma(shared);
  CHECK(!making(gemma.model, {0, 1, 2, 3}));
  CHECK(!making(gemma.model, fd::layers_without_second_quarter(gemma.model.config())));
  CHECK(making(gemma.model, {1, 2}) == ErrorCode::kInvalidOption);
  TinyModel recurrent;
  recurrent.family = "qwen35";
  Loaded delta_net(recurrent);
  CHECK(making(delta_net.model, {0}) == ErrorCode::kUnsupportedModel);
}

TEST_CASE("without its second quarter a model keeps its first layers and its last half") {
  const auto of = [](std::size_t n, std::vector<int> keys_of = {}) {
    fd::ModelConfig config;
    config.layers.resize(n);
    for (std::size_t i = 0; i < keys_of.size(); ++i) {
      config.layers[i].attention.keys_of = keys_of[i];
    }
    return fd::layers_without_second_quarter(config);
  };
  CHECK(of(8) == std::vector<int>{0, 1, 4, 5, 6, 7});
  CHECK(of(7) == std::vector<int>{0, 3, 4, 5, 6});
  CHECK(of(3) == std::vector<int>{0, 1, 2});
  CHECK(of(2) == std::vector<int>{0, 1});
  CHECK(of(1) == std::vector<int>{0});
  // Of what would be left out, what others read stays.
  CHECK(of(8, {-1, -1, -1, -1, -1, -1, 2, 3}) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(of(8, {-1, -1, -1, -1, -1, -1, 2, 2}) == std::vector<int>{0, 1, 2, 4, 5, 6, 7});
}
