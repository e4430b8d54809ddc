#pragma once

#include <string_view>

#include <foredraft/model/family/llama.hpp>

namespace foredraft::inline v0::family {

/// Qwen 2 and 2.5: Llama with biases on queries, keys and values, and another order of rotation. Contexts
/// may be stretched by YaRN, as in the families that follow from this one.
/// @source Yang et al. 2024, arXiv:2407.10671
struct Qwen2 : Llama {
  static constexpr std::string_view kName = "qwen2";

  static ModelConfig config(const ConfigReader& reader) {
    return full_attention(reader, RopeKind::kHalves, {.rope_scaling = "yarn"});
  }
};

}  // namespace foredraft::inline v0::family
