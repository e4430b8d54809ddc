#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <foredraft/io/gguf.hpp>
#include <foredraft/io/tokenizer.hpp>

#include "output.hpp"
#include "survey.hpp"

namespace cli {

/// What `inspect` finds out about a file.
struct Findings {
  std::filesystem::path path;
  std::string family;
  std::string name;
  std::uint64_t parameters = 0;
  std::string why_not;  ///< the error that loading would end with; empty: it runs
  std::optional<Survey> survey;
  std::optional<fd::Tokenizer> tokenizer;
  std::string chat_format;  ///< empty: none is recognised
  int n_ctx = 0;            ///< of the memory estimate

  bool runs() const { return why_not.empty(); }
  double cache_bytes() const { return survey->cache_bytes(n_ctx); }
  /// With a pass as a prompt is read: of its rows, the last one alone has logits.
  double total_bytes() const {
    return static_cast<double>(survey->weight_bytes) + cache_bytes() + survey->pass_bytes(512, 1);
  }
};

/// @param n_ctx context for the memory estimate; 0: the default of `generate`
/// @errors kInvalidOption for a context beyond the model's
Findings examine(const std::filesystem::path& path, const fd::Gguf& file, int n_ctx);

/// "Q4_K 168, F32 141": how many tensors there are of each type.
std::string types_in_use(const fd::Gguf& file);
std::string describe(const fd::Tokenizer& tokenizer);
std::string metadata_table(const fd::Gguf& file);
std::string tensor_table(const fd::Gguf& file);

Json tokenizer_to_json(const fd::Tokenizer& tokenizer);
/// Arrays of more than 8 elements are cut to {"type", "count", "first"}.
Json metadata_to_json(const fd::Gguf& file);
Json tensors_to_json(const fd::Gguf& file);

}  // namespace cli
