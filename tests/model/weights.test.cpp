#include <foredraft/model/weights.hpp>

#include <foredraft/backend/reference/reference.hpp>

#include <functional>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// The weights of a tiny model's file, and what they are read with.
struct Reading {
  explicit Reading(const TinyModel& tiny)
      : bytes(tiny.file()), file(fd::Gguf::parse(bytes)), config(fd::read_config(file)) {
    config.n_vocab = tiny.n_vocab;
  }
  auto weights() { return fd::read_weights(backend, file, config); }

  std::vector<std::byte> bytes;
  fd::Gguf file;
  fd::ModelConfig config;
  fd::Reference backend;
};

}  // namespace

TEST_CASE("weights hold the file's values, and optional tensors only where the file has them") {
  for (const bool tied : {true, false}) {
    TinyModel tiny;
    tiny.family = tied ? "llama" : "qwen2";
    tiny.tied = tied;
    Reading reading(tiny);
    const auto weights = reading.weights();
    CHECK(weights.head.has_value() == !tied);
    CHECK(&weights.output() == (tied ? &weights.embedding : &*weights.head));
    REQUIRE(weights.layers.size() == 2);
    CHECK(weights.layers[0].attention.q_bias.empty() == tied);
    CHECK(weights.rope_factors.empty());
    const fd::TensorView up = reading.file.view(*reading.file.find_tensor("blk.1.ffn_up.weight"));
    std::vector<float> row(up.n_in);
    fd::dequantize_row(up.type, up.data.data(), up.n_in, row.data());
    for (std::size_t i = 0; i < row.size(); ++i) {
      CHECK(weights.layers[1].feed_forward.up(0, static_cast<Eigen::Index>(i)) == row[i]);
    }
  }
}

TEST_CASE("a file whose tensors contradict its configuration is refused") {
  const auto refusal = [](const std::function<void(fd::ModelConfig&)>& change) -> std::string {
    Reading reading(TinyModel{});
    change(reading.config);
    try {
      reading.weights();
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kShapeMismatch);
      return error.found();
    }
    return "nothing";
  };
  CHECK(refusal([](fd::ModelConfig&) {}) == "nothing");
  CHECK(refusal([](fd::ModelConfig& c) { c.n_vocab = c.n_vocab + 1; }) ==
        "tensor 'token_embd.weight' of shape [307, 64]");
  CHECK(refusal([](fd::ModelConfig& c) {
          for (auto& layer : c.layers) layer.feed_forward.d_ff = layer.feed_forward.d_ff - 32;
        }) == "tensor 'blk.0.ffn_gate.weight' of shape [96, 64]");
  CHECK(refusal([](fd::ModelConfig& c) { c.layers.resize(3, c.layers[0]); }) ==
        "no tensor 'blk.2.attn_norm.weight'");
  // So many layers are not even made room for.
  CHECK(refusal([](fd::ModelConfig& c) { c.layers.resize(1 << 16, c.layers[0]); }) == "20 tensors");
}

TEST_CASE("a tensor that the model would leave out is refused by name") {
  const auto refusal = [](const std::vector<std::string>& names) -> std::string {
    TinyModel tiny;
    tiny.more_vectors = names;
    Reading reading(tiny);
    try {
      reading.weights();
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
      return error.found();
    }
    return "nothing";
  };
  CHECK(refusal({}) == "nothing");
  for (const std::string name :
       {"blk.0.attn_output.bias", "output.bias", "blk.1.attn_q_norm.weight",
        "blk.2.attn_norm.weight", "output_norm.bias"}) {
    CHECK(refusal({name}) == "tensor \"" + name + "\", which this version does not use");
  }
  CHECK(refusal({"output.bias", "cls.weight", "cls.bias"}) ==
        "tensor \"output.bias\" and 2 more, which this version does not use");
}

TEST_CASE("frequency factors of the rotation are read, not left out") {
  TinyModel tiny;
  tiny.d_model = 8;  // as many as pairs of a head of 16
  tiny.d_ff = 32;
  tiny.type = fd::TensorType::kF32;
  tiny.more_vectors = {"rope_freqs.weight"};
  CHECK(Reading(tiny).weights().rope_factors.size() == 8);
}

TEST_CASE("queries and gates take turns in a tensor, and layers that only predict stay unread") {
  TinyModel tiny;
  tiny.family = "qwen35";
  tiny.type = fd::TensorType::kF32;
  tiny.n_layers = 3;
  tiny.n_predicting = 1;
  Reading reading(tiny);
  const auto weights = reading.weights();
  REQUIRE(weights.layers.size() == 2);
  const fd::AttentionWeights<fd::Reference>& attention = weights.layers[1].attention;
  const fd::TensorView both = reading.file.view(*reading.file.find_tensor("blk.1.attn_q.weight"));
  REQUIRE((attention.wq.rows() == 96 && attention.gate.rows() == 96));  // 6 heads of 16
  std::vector<float> row(both.n_in);
  for (std::size_t n = 0; n < both.n_out; ++n) {
    const std::size_t bytes = both.data.size() / both.n_out;
    fd::dequantize_row(both.type, both.data.data() + n * bytes, both.n_in, row.data());
    const auto& matrix = n % 32 < 16 ? attention.wq : attention.gate;
    const auto at = static_cast<Eigen::Index>(n / 32 * 16 + n % 16);
    CHECK(matrix.row(at) == Eigen::Map<Eigen::RowVectorXf>(row.data(), matrix.cols()));
  }
  // Without the key they are layers like others, of which this one lacks nothing.
  tiny.n_predicting = 0;
  CHECK(Reading(tiny).weights().layers.size() == 3);
}
