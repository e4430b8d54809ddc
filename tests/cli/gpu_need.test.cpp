#include "gpu_need.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <foredraft/backend/cuda/host_device.hpp>
#include <foredraft/backend/cuda/memory_pool.hpp>
#include <foredraft/backend/cuda/weights.hpp>
#include <foredraft/io/gguf.hpp>

#include "support/catch.hpp"
#include "support/throws.hpp"
#include "support/tiny_model.hpp"
#include "survey.hpp"

namespace fd = foredraft;

namespace {

double bytes_of(const std::vector<cli::GpuNeed>& needs) {
  return cli::device_bytes<fd::cuda::HostDevice>(needs);
}

/// Two layers, one of them with a window of 8.
cli::GpuNeed need() {
  const fd::AttentionShape attention{
      .n_heads = 4, .n_kv_heads = 2, .d_head = 16, .d_q = 64, .d_kv = 32};
  cli::GpuNeed need{.n_ctx = 1000};
  need.config.n_ctx = 2000;
  need.config.layers.resize(2);
  for (fd::LayerShape& layer : need.config.layers) layer.attention = attention;
  need.config.layers[1].attention.window = 8;
  return need;
}

/// Of keys and values of a head in a layer with a window, in f16.
double window_bytes(int places) { return 2.0 * 2 * 2 * 16 * places; }

template <typename Shape>
fd::ModelConfig recurrent(const Shape& shape) {
  fd::ModelConfig config;
  config.layers.resize(2);
  config.layers[1].recurrent = shape;
  return config;
}

std::string refusal(const fd::ModelConfig& config, const std::string& of) {
  try {
    cli::check_gpu_limits(config, of);
    return {};
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
    return error.what();
  }
}

}  // namespace

TEST_CASE("sinks take room in layers with a window") {
  const cli::GpuNeed without = need();
  cli::GpuNeed with = need();
  with.sinks = 100;
  const double more = bytes_of({with}) - bytes_of({without});
  CHECK(more >= window_bytes(100));
  CHECK(more < window_bytes(100 + 64));  // whole blocks
}

TEST_CASE("two models take what each of them takes") {
  cli::GpuNeed target = need();
  target.weight_bytes = 1e6;
  target.pass_bytes = 1e4;
  cli::GpuNeed draft = need();
  draft.formats = {fd::RowFormat::kF32, fd::RowFormat::kF32};
  CHECK(bytes_of({target}) > 1e6 + 1e4);
  CHECK(bytes_of({target, draft}) == bytes_of({target}) + bytes_of({draft}));
}

TEST_CASE("keys and values are counted in their own formats") {
  const auto with = [](fd::RowFormat k, fd::RowFormat v) {
    cli::GpuNeed one = need();
    one.formats = {k, v};
    return bytes_of({one});
  };
  using enum fd::RowFormat;
  const double half = with(kF16, kF16);
  CHECK(with(kF32, kF16) == with(kF16, kF32));
  CHECK(with(kF32, kF32) - half == 2 * (with(kF32, kF16) - half));
  CHECK(with(kF32, kF16) - half >= 2.0 * 2 * 16 * 1000);  // of the layer without a window
}

TEST_CASE("attention takes a bounded part of a long context") {
  const auto beside_caches = [](int n_ctx) {
    cli::GpuNeed prompt = need();
    prompt.n_ctx = n_ctx;
    cli::GpuNeed row = prompt;
    row.rows = 1;
    return bytes_of({prompt}) - bytes_of({row});
  };
  CHECK(beside_caches(1000) < beside_caches(4000));
  CHECK(beside_caches(1 << 20) < beside_caches(4000) + (64 << 20));
}

TEST_CASE("rows of a pass need room") {
  cli::GpuNeed few = need();
  few.rows = 16;
  cli::GpuNeed many = need();
  many.rows = 512;
  CHECK(bytes_of({few}) < bytes_of({many}));
  CHECK(bytes_of({many}) == bytes_of({need()}));  // as a prompt is read
}

TEST_CASE("weights are counted as a GPU holds them") {
  const auto bytes = TinyModel{.type = fd::TensorType::kQ4_K, .d_model = 256, .d_ff = 256}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  double expected = 0;
  for (const auto& tensor : file.tensors()) {
    const fd::TensorView view = file.view(tensor);
    const double one = view.n_out > 1 ? fd::cuda::bytes_of(view.type, view.n_out, view.n_in)
                                      : 4.0 * static_cast<double>(view.n_in);
    expected +=
        static_cast<double>(fd::cuda::MemoryPool<int>::rounded(static_cast<std::size_t>(one)));
  }
  CHECK(static_cast<double>(cli::survey(file, {}, true).weight_bytes) == expected);
}

TEST_CASE("a draft model is counted as it is changed") {
  const auto bytes = TinyModel{.type = fd::TensorType::kBF16}.file();
  const fd::Gguf file = fd::Gguf::parse(bytes);
  const auto whole = cli::survey(file, {}, true).weight_bytes;
  const fd::LoadOptions smaller{.requantize = fd::TensorType::kQ4_0};
  const auto changed = cli::survey(file, smaller, true).weight_bytes;
  CHECK(changed < whole);
  const fd::LoadOptions trimmed{.requantize = fd::TensorType::kQ4_0, .head_tokens = 20};
  CHECK(cli::survey(file, trimmed, true).weight_bytes < changed);
}

TEST_CASE("states that no kernel holds are refused in a sentence") {
  fd::SelectiveScanShape scan{
      .width = 16, .n_heads = 1, .d_head = 16, .d_state = 512, .n_groups = 1, .kernel = 4};
  CHECK(refusal(recurrent(scan), "").empty());
  scan.d_state = 513;
  CHECK(refusal(recurrent(scan), "") ==
        "[unsupported-model] found recurrent layers with states of 513 columns and --device cuda; "
        "expected at most 512, which a GPU's registers hold; hint: use --device cpu");
  fd::GatedDeltaNetShape net{
      .width = 16, .n_heads = 1, .n_key_heads = 1, .d_key = 256, .d_value = 16, .kernel = 4};
  CHECK(refusal(recurrent(net), "-draft").empty());
  net.d_key = 257;
  CHECK(refusal(recurrent(net), "-draft") ==
        "[unsupported-model] found recurrent layers with keys of 257 dimensions and --device-draft "
        "cuda; expected at most 256, which a GPU's registers hold; hint: use --device-draft cpu");
}
