#pragma once

#include <cstddef>
#include <vector>

#include <foredraft/models.hpp>

#include "support/tiny_model.hpp"

/// A small model on the CPU backend, and the same model cut short as its draft model: often right,
/// often wrong.
struct TinyPair {
  explicit TinyPair(const TinyModel& tiny = {})
      : target_bytes(tiny.file()), draft_bytes(cut_short(tiny).file()) {}

  static TinyModel cut_short(TinyModel tiny) {
    tiny.n_layers = 1;
    return tiny;
  }

  std::vector<std::byte> target_bytes;
  std::vector<std::byte> draft_bytes;
  foredraft::Cpu cpu{{.threads = 2}};
  foredraft::Model<foredraft::Cpu> target =
      foredraft::load(cpu, foredraft::Gguf::parse(target_bytes));
  foredraft::Model<foredraft::Cpu> draft =
      foredraft::load(cpu, foredraft::Gguf::parse(draft_bytes));
};
