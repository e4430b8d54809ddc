#pragma once

#include <string_view>

#include <foredraft/model/family/llama.hpp>

namespace foredraft::inline v0::family {

/// Mistral Small 3.1 and later, and Ministral 3: Llama under another name. Older Mistral models are
/// of the family `llama` in files. Contexts stretched by YaRN, and scores that grow with the
/// position, are refused: files of Ministral 3 ask for both.
/// @source Jiang et al. 2023, arXiv:2310.06825
struct Mistral3 : Llama {
  static constexpr std::string_view kName = "mistral3";
};

}  // namespace foredraft::inline v0::family
