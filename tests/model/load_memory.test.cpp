// How much memory loading takes: a program of its own, because a peak is that of a process.
#include <filesystem>
#include <optional>
#include <string>

#include <foredraft/backend/cpu/cpu.hpp>
#include <foredraft/core/drop_behind.hpp>
#include <foredraft/model/packed_weights.hpp>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/layer_matrices.hpp"
#include "support/models.hpp"
#include "support/process_memory.hpp"
#include "support/skip.hpp"
#include "support/tiny_model.hpp"

namespace fd = foredraft;

namespace {

/// 66 MB, a quarter of them the embedding: small models have as much.
void write_model(const std::filesystem::path& path) {
  TinyModel model;
  model.type = fd::TensorType::kQ8_0;
  model.n_vocab = 32000;
  model.d_model = 512;
  model.n_heads = 8;
  model.n_kv_heads = 4;
  model.d_head = 64;
  model.d_ff = 1536;
  model.n_layers = 15;
  write_bytes(path, model.file());
}

std::size_t packed_bytes(const fd::ModelWeights<fd::Cpu>& weights) {
  std::size_t bytes = weights.embedding.bytes() + (weights.head ? weights.head->bytes() : 0);
  for (const auto& layer : weights.layers) {
    for (const auto* matrix : layer_matrices(layer)) bytes += matrix->bytes();
  }
  return bytes;
}

// What a step of the reader holds is much for so small a model as the test's own.
constexpr auto kStep = static_cast<double>(fd::DropBehind::kStep);

/// Read the weights of an open file. @return the greatest growth of memory meanwhile, but for `spared`
/// bytes, as a multiple of the packed weights
std::optional<double> peak(const fd::Gguf& file, const fd::LoadOptions& options,
                           double spared = kStep) {
  fd::Cpu cpu{{.threads = 2}};
  fd::ModelConfig config = fd::read_config(file);
  config.n_vocab = static_cast<int>(file.find("tokenizer.ggml.tokens")->count);
  const auto before = begin_memory_peak();
  if (!before) return std::nullopt;
  const auto weights = options.packed_files.empty()
                           ? fd::read_weights(cpu, file, config, options)
                           : fd::read_weights_packed(cpu, file, config, options);
  const double grown =
      static_cast<double>(process_memory("VmHWM:").value_or(0)) - static_cast<double>(*before);
  return (grown - spared) / static_cast<double>(packed_bytes(weights));
}

void check_real(const char* name) {
  const auto file = model_file(name);
  if (!file) return;
  if (!begin_memory_peak()) return skip("no peak of memory to be had here");
  CAPTURE(name);
  CHECK(peak(fd::Gguf::open(*file), {}, 0).value() <= 1.15);
}

}  // namespace

TEST_CASE("the pages of a file are given back as they are repacked") {
  if (!begin_memory_peak()) return skip("no peak of memory to be had here");
  const TestFolder folder("load_memory");
  write_model(folder.path / "model");
  const auto open = [&] { return fd::Gguf::open(folder.path / "model"); };
  const fd::Gguf file = open();
  // Twice from one file: what was given back is read again.
  CHECK(peak(file, {}).value() <= 1.15);
  CHECK(peak(file, {}).value() <= 1.15);
  fd::LoadOptions packed;
  packed.packed_files = {folder.path / "packed"};
  CHECK(peak(open(), packed).value() <= 1.15);  // written
  CHECK(peak(open(), packed).value() <= 1.15);  // and mapped
  fd::LoadOptions smaller;
  smaller.requantize = fd::TensorType::kQ4_0;
  CHECK(peak(open(), smaller).value() <= 1.15);
}

TEST_CASE("a real model takes no more than 1.15 times its packed weights, nothing spared") {
  check_real("smollm2-135m");
}

TEST_CASE("nor does a larger one") {
  check_real("qwen2.5-coder-0.5b");
  check_real("qwen2.5-coder-1.5b");
}
