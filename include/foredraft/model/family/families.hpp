#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <foredraft/core/error.hpp>
#include <foredraft/core/quoted.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/gemma2.hpp>
#include <foredraft/model/family/gemma3.hpp>
#include <foredraft/model/family/gemma4.hpp>
#include <foredraft/model/family/granite.hpp>
#include <foredraft/model/family/lfm2.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/family/mamba2.hpp>
#include <foredraft/model/family/mistral3.hpp>
#include <foredraft/model/family/nemotron_h.hpp>
#include <foredraft/model/family/olmo2.hpp>
#include <foredraft/model/family/phi3.hpp>
#include <foredraft/model/family/qwen2.hpp>
#include <foredraft/model/family/qwen3.hpp>
#include <foredraft/model/family/qwen35.hpp>
#include <foredraft/model/family/qwen3moe.hpp>
#include <foredraft/model/family/qwen3next.hpp>

namespace foredraft::inline v0 {

namespace family {

/// The families that a file may be of.
///
/// A family is a type with a name, as `general.architecture` spells it; config(reader), which reads
/// its keys and refuses what it does not know; and layer<B>(reader, config, n), which reads the
/// tensors of layer n. One with kMixesExperts may have mixtures; one with kEmbedsLayers reads what
/// layers embed besides, in layer_inputs<B>(reader, config). docs/guides/family.md goes through the
/// steps of adding one.
template <typename... F>
struct List {
  /// f(family) for the one of that name.
  /// @errors kUnsupportedModel where there is none
  template <typename Result, typename Visitor>
  static Result visit(std::string_view name, Visitor&& f) {
    Result result{};
    const bool known = ((F::kName == name && (result = f(F{}), true)) || ...);
    if (known) return result;
    throw Error(ErrorCode::kUnsupportedModel, "model family " + in_quotes(name), names(),
                "choose a model of one of these families");
  }

  /// "a, b or c"
  static std::string names() {
    std::string all;
    std::size_t left = sizeof...(F);
    ((all += std::string(F::kName) + (--left == 0 ? "" : left == 1 ? " or " : ", ")), ...);
    return all;
  }
};

using All = List<Llama, Mistral3, Qwen2, Qwen3, Qwen3Moe, Qwen3Next, Qwen35, Qwen35Moe, Gemma2,
                 Gemma3, Gemma4, Granite, Olmo2, Phi3, Lfm2, Mamba2, NemotronH>;

}  // namespace family

namespace detail {

/// A file that holds something else than one whole language model.
inline void refuse_other_files(const Gguf& file) {
  const std::string_view type = file.get_string("general.type").value_or("model");
  if (type != "model") {
    throw Error(ErrorCode::kUnsupportedModel, "a file of type " + in_quotes(type),
                "a language model", "give the model that it belongs to");
  }
  const std::uint64_t parts = file.get_uint("split.count").value_or(1);
  if (parts > 1) {
    throw Error(ErrorCode::kUnsupportedModel,
                "one of " + std::to_string(parts) + " parts of a model",
                "the whole model in one file", "join the parts: llama-gguf-split --merge");
  }
}

}  // namespace detail

/// Read a model's configuration. The vocabulary's size is left open: the tokenizer knows it.
/// @errors kUnsupportedModel for a family or a variant that this version cannot run; kCorruptFile
inline ModelConfig read_config(const Gguf& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) {
    throw Error(ErrorCode::kUnsupportedModel, "no general.architecture", "a language model",
                "is this a tokenizer, an adapter or a projector file?");
  }
  detail::refuse_other_files(file);
  const std::string name(*architecture);
  const detail::ConfigReader reader(file, name);
  ModelConfig config = family::All::visit<ModelConfig>(name, [&](auto family) {
    // First of all: such files may lack the dimensions of a dense model.
    constexpr bool mixes = requires { decltype(family)::kMixesExperts; };
    if (!mixes && reader.number("expert_count", 0) > 0) {
      throw Error(ErrorCode::kUnsupportedModel, "a mixture of experts", "a dense model",
                  "choose a model without \"MoE\" or \"8x\" in its name");
    }
    return decltype(family)::config(reader);
  });
  config.family = name;
  return config;
}

}  // namespace foredraft::inline v0
