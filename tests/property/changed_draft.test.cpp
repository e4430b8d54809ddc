// A draft model that is requantized and knows only part of the vocabulary changes what is drafted,
// not what is said: greedy text, the text of a seed under match, and no token of the target is out
// of reach of the rules that use q. So does one whose vocabulary is padded less, or more.

#include <foredraft/models.hpp>

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

using Model = fd::Model<fd::Cpu>;
using Cache = fd::LinearCache<fd::f16>;
const std::vector<fd::TokenId> kPrompt{72, 101, 108, 108, 111, 44, 32, 119, 111};

template <typename A>
fd::Result run(Model& target, Model* draft, A acceptance, fd::Options options) {
  if (draft == nullptr) {
    options.n_draft = 0;
    return fd::Decoder{target, Cache{target.shape()}, fd::NoDraft{}, acceptance}.generate(kPrompt,
                                                                                          options);
  }
  return fd::Decoder{target, Cache{target.shape()}, fd::ModelDrafter{*draft}, acceptance}.generate(
      kPrompt, options);
}

bool knows(const Model& draft, fd::TokenId token) {
  return draft.head_tokens().empty() ||
         std::binary_search(draft.head_tokens().begin(), draft.head_tokens().end(), token);
}

}  // namespace

TEST_CASE("a requantized draft model with a trimmed vocabulary leaves the text alone") {
  for (const bool tied : {true, false}) {
    for (const auto& [family, type] :
         {std::pair{"llama", fd::TensorType::kQ8_0}, std::pair{"qwen2", fd::TensorType::kF16}}) {
      TinyModel tiny;
      tiny.tied = tied;
      tiny.family = family;
      tiny.type = type;
      const auto bytes = tiny.file();
      const fd::Gguf file = fd::Gguf::parse(bytes);
      fd::Cpu cpu{{.threads = 2}};
      Model target = fd::load(cpu, file);
      const fd::Options greedy{.max_tokens = 200, .n_draft = 5, .ignore_end = true};
      fd::Options sampled = greedy;
      sampled.sampling.temperature = 1.0f;
      sampled.seed = 3;
      const auto plain = run(target, nullptr, fd::Greedy{}, greedy).tokens;
      const auto text = run(target, nullptr, fd::SampleAndMatch{}, sampled).tokens;

      for (const int n : {0, 60, 200}) {
        for (const bool requantize : {false, true}) {
          fd::LoadOptions options{.head_tokens = n};
          if (requantize) options.requantize = fd::TensorType::kQ4_0;
          CAPTURE(tied, family, n, requantize);
          Model draft = fd::load(cpu, file, options);
          const fd::Result drafted = run(target, &draft, fd::Greedy{}, greedy);
          CHECK(drafted.tokens == plain);
          CHECK(drafted.stats.drafted > 0);
          CHECK(run(target, &draft, fd::SampleAndMatch{}, sampled).tokens == text);

          for (const bool block : {false, true}) {
            const fd::Result free = block ? run(target, &draft, fd::BlockVerification{}, sampled)
                                          : run(target, &draft, fd::RejectionSampling{}, sampled);
            REQUIRE(free.tokens.size() == 200);
            CHECK(free.stats.drafted > 0);
            std::ptrdiff_t unknown = 0;
            for (std::size_t i = 0; i < free.tokens.size(); ++i) {
              if (free.from_draft[i]) CHECK(knows(draft, free.tokens[i]));
              unknown += !knows(draft, free.tokens[i]);
            }
            if (n == 60) CHECK(unknown > 0);  // the target says them all the same
          }
        }
      }
    }
  }
}

TEST_CASE("a target whose vocabulary is padded further than the draft model's, and the reverse") {
  // As in families whose larger models have larger tables. A model that was never trained says
  // unused tokens, too, and the draft model has to go on behind them.
  TinyModel small;
  small.n_vocab = 304;
  small.n_unused = 4;
  TinyModel large = small;
  large.n_vocab = 400;
  large.n_unused = 100;
  const auto small_bytes = small.file();
  const auto large_bytes = large.file();
  fd::Cpu cpu{{.threads = 1}};
  Model a = fd::load(cpu, fd::Gguf::parse(small_bytes));
  Model b = fd::load(cpu, fd::Gguf::parse(large_bytes));
  for (const auto& [target, draft] : {std::pair{&b, &a}, std::pair{&a, &b}}) {
    CAPTURE(target->vocab_size());
    fd::Options options{.max_tokens = 200, .n_draft = 5, .ignore_end = true};
    CHECK(run(*target, draft, fd::Greedy{}, options).tokens ==
          run(*target, nullptr, fd::Greedy{}, options).tokens);
    options.sampling.temperature = 1.0f;
    const auto text = run(*target, nullptr, fd::SampleAndMatch{}, options).tokens;
    const bool unknown = std::any_of(
        text.begin(), text.end(), [&](fd::TokenId token) { return token >= draft->vocab_size(); });
    CHECK(unknown == (target == &b));
    CHECK(run(*target, draft, fd::SampleAndMatch{}, options).tokens == text);
    CHECK(run(*target, draft, fd::RejectionSampling{}, options).tokens.size() == 200);
    CHECK(run(*target, draft, fd::BlockVerification{}, options).tokens.size() == 200);
  }
}
