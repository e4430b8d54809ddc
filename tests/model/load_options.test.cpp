#include <foredraft/model/load_options.hpp>

#include <foredraft/backend/reference/reference.hpp>
#include <foredraft/models.hpp>

#include <deque>
#include <limits>

#include <foredraft/io/gguf_writer.hpp>

#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;
using Type = fd::TensorType;

namespace {

using Cache = fd::LinearCache<fd::f16>;
const std::vector<fd::TokenId> kText{72, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100, 33};

template <typename M>
std::vector<std::vector<float>> logits_of(M& model) {
  Cache cache{model.shape()};
  cache.stage(chain_nodes(kText));
  return forward_rows(model, cache, 0, static_cast<int>(kText.size()));
}

template <typename M>
std::vector<fd::TokenId> best_of(M& model) {
  Cache cache{model.shape()};
  cache.stage(chain_nodes(kText));
  fd::Scores scores;
  fd::Request<Cache> request{
      &cache, 0, static_cast<int>(kText.size()), {fd::RowNeed::kArgmax, {}}, &scores};
  model.forward(std::span(&request, 1));
  return {scores.argmax().begin(), scores.argmax().end()};
}

/// The same model as a file whose matrices are quantized already. Its embedding table stays, and a
/// tied head becomes a matrix of its own.
std::vector<std::byte> requantized_file(const fd::Gguf& file, Type to) {
  fd::GgufWriter writer;
  for (const auto& entry : file.metadata()) writer.add(entry.key, entry.value);
  std::deque<std::vector<std::byte>> kept;
  const auto add = [&](const std::string& name, const fd::Gguf::Tensor& tensor) {
    const fd::TensorView view = file.view(tensor);
    const std::size_t row = *fd::row_bytes(view.type, view.n_in);
    const auto changed_row = fd::row_bytes(to, view.n_in);
    if (view.n_out == 1 || !changed_row || *changed_row >= row || name == "token_embd.weight") {
      writer.add_tensor(name, tensor.type, tensor.shape, tensor.data);
      return;
    }
    auto& bytes = kept.emplace_back(view.n_out * *changed_row);
    for (std::size_t i = 0; i < view.n_out; ++i) {
      REQUIRE(fd::requantize_row(view.type, view.data.data() + i * row, view.n_in, to,
                                 bytes.data() + i * *changed_row));
    }
    writer.add_tensor(name, to, tensor.shape, bytes);
  };
  for (const auto& tensor : file.tensors()) add(std::string(tensor.name), tensor);
  if (file.find_tensor("output.weight") == nullptr)
    add("output.weight", *file.find_tensor("token_embd.weight"));
  return writer.bytes();
}

fd::ErrorCode refused(const TinyModel& tiny, const fd::LoadOptions& options) {
  const auto bytes = tiny.file();
  fd::Reference backend;
  try {
    fd::load(backend, fd::Gguf::parse(bytes), options);
  } catch (const fd::Error& error) {
    return error.code();
  }
  FAIL("loaded");
  return {};
}

}  // namespace

TEST_CASE("requantizing is loading a file of that format") {
  for (const bool tied : {true, false}) {
    for (const auto& [from, to] :
         {std::pair{Type::kF32, Type::kQ4_0}, std::pair{Type::kF16, Type::kQ8_0},
          std::pair{Type::kQ8_0, Type::kQ4_0}, std::pair{Type::kQ6_K, Type::kQ4_0}}) {
      TinyModel tiny;
      tiny.tied = tied;
      tiny.type = from;
      tiny.d_model = tiny.d_ff = 256;
      const auto bytes = tiny.file();
      const fd::Gguf file = fd::Gguf::parse(bytes);
      const auto other_bytes = requantized_file(file, to);
      CAPTURE(tied, fd::layout_of(from)->name, fd::layout_of(to)->name);
      for (const int threads : {1, 3}) {
        fd::Cpu cpu{{.threads = threads}};
        std::size_t done = 0, total = 1;
        auto changed =
            fd::load(cpu, file, {.requantize = to, .progress = [&](std::size_t d, std::size_t t) {
                                   done = d;
                                   total = t;
                                 }});
        CHECK(done == total);
        auto written = fd::load(cpu, fd::Gguf::parse(other_bytes));
        const auto rows = logits_of(changed);
        CHECK(rows == logits_of(written));
        auto plain = fd::load(cpu, file);
        CHECK(rows != logits_of(plain));
      }
    }
  }
}

TEST_CASE("a trimmed head has the logits of the whole one, and -inf for tokens that it lacks") {
  for (const bool tied : {true, false}) {
    for (const Type type : {Type::kF32, Type::kQ4_0, Type::kQ8_0}) {
      for (const bool requantize : {false, true}) {
        for (const int n : {52, 117, 306}) {
          if (requantize && type == Type::kQ4_0) continue;
          TinyModel tiny;
          tiny.tied = tied;
          tiny.type = type;
          const auto bytes = tiny.file();
          const fd::Gguf file = fd::Gguf::parse(bytes);
          fd::LoadOptions options;
          if (requantize) options.requantize = Type::kQ4_0;
          // Whatever: the higher, the more frequent, for tokens of one kind.
          for (int id = 0; id < 250; ++id) options.token_counts.push_back(id);
          CAPTURE(tied, fd::layout_of(type)->name, requantize, n);
          fd::Cpu cpu{{.threads = 2}};
          fd::LoadOptions whole_options{.requantize = options.requantize};
          auto whole = fd::load(cpu, file, whole_options);
          options.head_tokens = n;
          auto trimmed = fd::load(cpu, file, options);
          CHECK(trimmed.vocab_size() == whole.vocab_size());
          const auto kept = trimmed.head_tokens();
          REQUIRE(kept.size() == fd::idx(n));
          auto expected = logits_of(whole);
          for (auto& row : expected) {
            for (std::size_t id = 0; id < row.size(); ++id) {
              if (!std::binary_search(kept.begin(), kept.end(), static_cast<fd::TokenId>(id)))
                row[id] = -std::numeric_limits<float>::infinity();
            }
          }
          CHECK(logits_of(trimmed) == expected);
          std::vector<fd::TokenId> best;
          for (const auto& row : expected) best.push_back(fd::Scores::argmax_of(row));
          CHECK(best_of(trimmed) == best);
        }
      }
    }
  }
}

TEST_CASE("rows of several requests find their own trimmed logits") {
  const auto bytes = TinyModel{}.file();
  fd::Reference backend;
  auto model = fd::load(backend, fd::Gguf::parse(bytes), {.head_tokens = 100});
  Cache a{model.shape()}, b{model.shape()}, c{model.shape()};
  a.stage(chain_nodes(kText));
  b.stage(chain_nodes(kText));
  c.stage(chain_nodes(kText));
  fd::Scores first, second, third;
  std::vector<fd::Request<Cache>> requests{{&a, 0, 3, {fd::RowNeed::kNothing, {}}, &first},
                                           {&b, 0, 3, {fd::RowNeed::kArgmax, {}}, &second},
                                           {&c, 0, 5, {fd::RowNeed::kLogits, {}}, &third}};
  model.forward(std::span(requests));
  const auto rows = logits_of(model);
  for (int i = 0; i < 5; ++i) {
    const auto row = std::as_const(third).logits(i);
    CHECK(std::vector<float>(row.begin(), row.end()) == rows[fd::idx(i)]);
    CHECK(std::as_const(third).argmax(i) == fd::Scores::argmax_of(row));
    if (i < 3) CHECK(std::as_const(second).argmax(i) == std::as_const(third).argmax(i));
    CHECK(std::as_const(third).runs(i).maxima.empty());  // those of a head are of other runs
  }
}

TEST_CASE("ties stay with the lowest id, and a row of NaN has no best token") {
  TinyModel tiny;
  tiny.type = Type::kF32;
  tiny.tied = false;
  auto bytes = tiny.file();
  {
    const fd::Gguf file = fd::Gguf::parse(bytes);
    const auto head = file.view(*file.find_tensor("output.weight")).data;
    const auto begin = fd::idx(head.data() - bytes.data());
    std::memset(bytes.data() + begin, 0, head.size());  // every logit 0
  }
  fd::Cpu cpu{{.threads = 2}};
  std::vector<std::int64_t> counts(200, 0);
  counts[150] = counts[199] = counts[151] = 1;
  auto model = fd::load(cpu, fd::Gguf::parse(bytes), {.head_tokens = 54, .token_counts = counts});
  CHECK(best_of(model) == std::vector<fd::TokenId>(kText.size(), 150));
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const auto norm = file.view(*file.find_tensor("output_norm.weight")).data;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + (norm.data() - bytes.data()), &nan, 4);
  auto broken = fd::load(cpu, fd::Gguf::parse(bytes), {.head_tokens = 54});
  CHECK(best_of(broken) == std::vector<fd::TokenId>(kText.size(), -1));
}

TEST_CASE("options that are out of range or would have no effect are refused") {
  TinyModel tiny;
  tiny.type = Type::kQ4_0;
  CHECK(refused(tiny, {.requantize = Type::kQ6_K}) == fd::ErrorCode::kInvalidOption);
  // attn_output of TinyModel has 8 bits, so there is something to do for 4, and nothing for 8.
  CHECK(refused(tiny, {.requantize = Type::kQ8_0}) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(tiny, {.head_tokens = -1}) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(tiny, {.head_tokens = 51}) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(tiny, {.head_tokens = 307}) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(tiny, {.token_counts = {1, 2}}) == fd::ErrorCode::kInvalidOption);
  CHECK(refused(tiny, {.head_tokens = 100, .token_counts = std::vector<std::int64_t>(308)}) ==
        fd::ErrorCode::kTokenOutOfRange);
}
