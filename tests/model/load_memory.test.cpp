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

/// Read the weights of an open file. @return the greatest growth of memory meanwhile, but for a step
/// of the reader, which is much for so small a model, as a multiple of the packed weights
std::optional<double> peak(const fd::Gguf& file, const fd::LoadOptions& options) {
  fd::Cpu cpu{{.threads = 2}};
  fd::ModelConfig config = fd::read_config(file);
  config.n_vocab = 32000;
  const auto before = begin_memory_peak();
  if (!before) return std::nullopt;
  const auto weights = options.packed_files.empty()
                           ? fd::read_weights(cpu, file, config, options)
                           : fd::read_weights_packed(cpu, file, config, options);
  const double grown =
      static_cast<double>(process_memory("VmHWM:").value_or(0)) - static_cast<double>(*before);
  constexpr auto kStep = static_cast<double>(fd::DropBehind::kStep);
  return (grown - kStep) / static_cast<double>(packed_bytes(weights));
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
